"""The switch between threads of a block: no value may wait for a thread in a register.

Read from the compiler's assembly, for processors other than this one, too: which registers it
spills to depends on -march, and a wrong switch computes wrong numbers on those machines alone.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lowgraph.hostdev import kernel_build
from lowgraph.hostdev.front_end import translate
from lowgraph.hostdev.toolchain import (
    INCLUDE_DIR,
    cuda_include_dirs,
    find_compiler,
    run_compiler,
)
from tests.support.process import ROOT

pytestmark = pytest.mark.host
KERNELS = ROOT / "kernels_cu"
RESUMED = "1:\tpop %rbp"
REGISTER = re.compile(r"%([xyz]mm\d+|k\d)\b")
# Both operands are read, or the last one is read before it is written.
READS_ALL = ("kortest", "ktest", "vcomis", "vucomis", "vptest", "vfm", "vfn", "comis", "ucomis")
# A register that is made 0: what it held is no matter.
ZEROES = re.compile(
    r"\tv?p?xor\w*\s+(%\w+)(, \1)+$"
)  # a register made 0: what it held is no matter
LEAVES = re.compile(r"\t(j\w+|call|ret)\b")


def assembly(source: str, march: str, tmp_path: Path) -> list[str]:
    flags = [
        f"-march={march}" if flag == "-march=native" else flag
        for flag in kernel_build.compile_flags(find_compiler(), checks=False)
    ]
    folders = (INCLUDE_DIR, KERNELS, *cuda_include_dirs())
    search = [f"-I{folder}" for folder in folders]
    header = ["-include", str(INCLUDE_DIR / "cuda_on_host.h")]
    path = KERNELS / source
    text = run_compiler([*flags, *search, *header, "-E", "-x", "c++", str(path)], source)
    made, out = tmp_path / "kernel.ii", tmp_path / "kernel.s"
    made.write_text(translate(text, path).text)
    run_compiler([*flags, "-S", "-x", "c++", str(made), "-o", str(out)], source)
    return out.read_text().splitlines()


def read_after(lines: list[str]) -> set[str]:
    """Registers that the lines read before they write them, up to where control may leave them."""
    written: set[str] = set()
    found: set[str] = set()
    for line in lines:
        if LEAVES.match(line):
            break
        plain = ZEROES.sub(r"\tmov\t$0, \1", line).split("#")[0]
        operands = re.split(r",\s*(?![^(]*\))", plain)
        sources = operands if line.strip().startswith(READS_ALL) else operands[:-1]
        # A mask in braces is read where it stands: {%k1} beside a destination.
        masks = re.findall(r"\{%(k\d)\}", line)
        read = {name for part in sources for name in REGISTER.findall(part)} | set(masks)
        found |= {_whole(name) for name in read} - written
        written |= {_whole(name) for name in REGISTER.findall(operands[-1])}
    return found


def _whole(name: str) -> str:
    """%ymm3 and %xmm3 are parts of one register."""
    return re.sub(r"^[xyz]mm", "mm", name)


# skylake-avx512 spills conditions to mask registers, k0 among them; sapphirerapids has most of all.
@pytest.mark.parametrize("march", ["haswell", "skylake-avx512", "sapphirerapids"])
@pytest.mark.parametrize("source", ["relu.cu", "layernorm_backward.cu"])
def test_nothing_waits_in_a_register(source: str, march: str, tmp_path: Path) -> None:
    lines = assembly(source, march, tmp_path)
    sites = [number for number, line in enumerate(lines) if line.endswith(RESUMED)]
    assert sites, "no switch found: has its text changed?"
    for site in sites:
        assert not read_after(lines[site + 1 :]), "\n".join(lines[site : site + 30])


def test_the_reading_of_assembly_sees_a_register_that_is_read() -> None:
    assert read_after(["\tvzeroupper", ".L74:", "\tkortestb\t%k0, %k0", "\tjne\t.L113"]) == {"k0"}
    assert read_after(["\tvaddss\t%xmm1, %xmm2, %xmm2"]) == {"mm1", "mm2"}
    assert read_after(["\tvmovss\t(%rax,%rbx), %xmm1", "\tvaddss\t%xmm1, %xmm1, %xmm3"]) == set()
    assert read_after(["\tvxorps\t%xmm1, %xmm1, %xmm1"]) == set()
    assert read_after(["\tcall\tf@PLT", "\tvmovaps\t%xmm0, %xmm1"]) == set()
    assert read_after(["\tvmovaps\t%ymm1, %ymm0{%k2}{z}"]) == {"mm1", "k2"}
