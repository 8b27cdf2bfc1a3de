"""The two kinds of device behind one interface: a CUDA GPU and the host device.

What differs between the two (how kernels are
compiled, what an annotation does, whether the host can look into device memory) is here and nowhere
above, except for the GEMM backend, whose name `blas_backend` gives.
"""

from __future__ import annotations

import abc
import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from cuda.bindings import driver

from lowgraph.driver import compat, compiler, cupti, event, gate
from lowgraph.driver import stream as streams
from lowgraph.driver.cupti import CallCount
from lowgraph.driver.images import ImageFacts
from lowgraph.errors import ConfigError, DeviceUnavailable
from lowgraph.hostdev import check

_ATTRIBUTE = driver.CUdevice_attribute
_OLDEST_DRIVER = 12040
_OLDEST_CAPABILITY = (8, 0)
# DLDeviceType of dlpack.h; memory of the last two is the host's and the device's.
_DLPACK_CPU, _DLPACK_CUDA, _DLPACK_SHARED = 1, 2, (3, 13)
_NO_ORDER = -1  # a DLPack consumer's stream
_STATES = {"gone": 0, "free": 1, "live": 2}


class Device(abc.ABC):
    """The device of this process.

    Attributes
    ----------
    spec: "host" or "cuda:N".
    title: name for people.
    arch: "sm_90", or "host-" and a key of the CPU.
    driver_version: as the driver reports it, 13000 for CUDA 13.0.
    compute_capability: (major, minor).
    multiprocessors: their number.
    total_memory: bytes.
    most_shared: bytes of shared memory that a block may have, static and dynamic.
    context: the primary context's handle.
    blas_backend: "cublas" or "kernel".
    kind: "host" or "cuda", which has its own default size of a model.
    dlpack_device: (type, id) that its memory has in DLPack: the CPU's on the host device, whose
        memory the host addresses as its own.
    resting_blocks: how many given-back blocks a pool is to keep unused, so that the device can tell
        a late use of them.
    """

    spec: str
    arch: str
    blas_backend: str
    kind: str
    dlpack_device: tuple[int, int]
    resting_blocks: int = 0

    def __init__(self, ordinal: int) -> None:
        gate.call(driver.cuInit, 0)
        self.driver_version = int(gate.call(driver.cuDriverGetVersion))
        check_driver_version(self.driver_version)
        count = int(gate.call(driver.cuDeviceGetCount))
        if ordinal >= count:
            raise DeviceUnavailable(f"device {ordinal} does not exist: the driver has {count}")
        self._device = gate.call(driver.cuDeviceGet, ordinal)
        self.ordinal = ordinal
        name: bytes = gate.call(driver.cuDeviceGetName, 128, self._device)
        self.title = name.split(b"\0")[0].decode()
        self.multiprocessors = self._attribute("MULTIPROCESSOR_COUNT")
        self.compute_capability = (
            self._attribute("COMPUTE_CAPABILITY_MAJOR"),
            self._attribute("COMPUTE_CAPABILITY_MINOR"),
        )
        self.most_shared = self._attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        self.total_memory = int(gate.call(driver.cuDeviceTotalMem, self._device))
        # The primary context, which CuPy and cuBLAS use too; retained for the life of the process.
        self.context = int(gate.call(driver.cuDevicePrimaryCtxRetain, self._device))
        self.make_current()

    def make_current(self) -> None:
        """Make the device's context current in the calling thread (needed once a thread)."""
        gate.call(driver.cuCtxSetCurrent, self.context)

    @staticmethod
    def current_context() -> int:
        """Return the context that is current in the calling thread, 0 if none is."""
        return int(gate.call(driver.cuCtxGetCurrent))

    @abc.abstractmethod
    def fault_text(self) -> str:
        """Return what is known of the fault that poisoned the context, "" if nothing."""

    @abc.abstractmethod
    def annotate(self, address: int, nbytes: int, state: str, name: str) -> None:
        """Tell the device about a slice: state "live", "free" (not to be touched) or "gone"."""

    @abc.abstractmethod
    def host_view(self, address: int, nbytes: int) -> memoryview | None:
        """Return device memory as the host sees it, None where it cannot. Synchronise first."""

    @abc.abstractmethod
    def reads(self, place: tuple[int, int]) -> bool:
        """Return whether kernels can use memory of a DLPack device, (type, id)."""

    @abc.abstractmethod
    def hand_over(self, stream: int, consumer: int | None) -> None:
        """Order a DLPack consumer behind the work of `stream`.

        consumer: its stream as DLPack writes it: None for the default, -1 for no order.
        Raises BufferError for a stream that DLPack has not for the device.
        """

    @abc.abstractmethod
    def count_calls(self) -> AbstractContextManager[CallCount]:
        """Count the driver calls of a `with` block below lowgraph, whoever makes them."""

    @abc.abstractmethod
    def compile(
        self,
        source: Path,
        include_dirs: Sequence[Path],
        defines: Mapping[str, str],
        options: Sequence[str] = (),
    ) -> bytes:
        """Compile a .cu file into a module image for this device. Raises BuildError.

        options: more flags of the device's compiler.
        """

    @abc.abstractmethod
    def compiler_key(self, defines: Mapping[str, str], options: Sequence[str] = ()) -> str:
        """Return what, besides the sources, decides what `compile` returns."""

    def unfit(self, image: ImageFacts) -> str:
        """Return why an image that the device could load is of no use in this run, "" if it is."""
        return ""

    @abc.abstractmethod
    def remedy_for(self, image: ImageFacts) -> str:
        """Return what to do about a module image that the device cannot load."""

    def place_key(self, source: Path) -> str:
        """Return what of a source's place, beyond its content, decides what `compile` returns."""
        return ""

    def _attribute(self, name: str) -> int:
        attribute = getattr(_ATTRIBUTE, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(gate.call(driver.cuDeviceGetAttribute, attribute, self._device))

    def __repr__(self) -> str:
        return f"<{self.spec}: {self.title}, {self.arch}>"


class CudaDevice(Device):
    """A GPU through the CUDA driver."""

    blas_backend = "cublas"
    kind = "cuda"

    def __init__(self, ordinal: int) -> None:
        super().__init__(ordinal)
        self.spec = f"cuda:{ordinal}"
        self.dlpack_device = (_DLPACK_CUDA, ordinal)
        major, minor = self.compute_capability
        self.arch = f"sm_{major}{minor}"
        if self.compute_capability < _OLDEST_CAPABILITY:
            raise DeviceUnavailable(
                f"{self.title} has compute capability {major}.{minor}; lowgraph needs 8.0 or "
                "later; run on the host device (--device host)"
            )

    def fault_text(self) -> str:
        """The driver tells no more than the code: "". compute-sanitizer does."""
        return ""

    def annotate(self, address: int, nbytes: int, state: str, name: str) -> None:
        """Do nothing: NVTX's memory extension, for compute-sanitizer, has no Python binding."""

    def host_view(self, address: int, nbytes: int) -> memoryview | None:
        """None: the host cannot read device memory."""
        return None

    def reads(self, place: tuple[int, int]) -> bool:
        """Its own memory, and what the driver pinned or manages."""
        return place == self.dlpack_device or place[0] in _DLPACK_SHARED

    def hand_over(self, stream: int, consumer: int | None) -> None:
        """The consumer's stream waits."""
        if consumer != _NO_ORDER:
            event.order(stream, streams.LEGACY if consumer is None else consumer)

    def count_calls(self) -> AbstractContextManager[CallCount]:
        """Count with CUPTI, where it can be had."""
        return cupti.count_calls()

    def compile(
        self,
        source: Path,
        include_dirs: Sequence[Path],
        defines: Mapping[str, str],
        options: Sequence[str] = (),
    ) -> bytes:
        """Compile to a cubin with NVRTC."""
        return compiler.compile_cubin(source, self.arch, include_dirs, defines, options)

    def compiler_key(self, defines: Mapping[str, str], options: Sequence[str] = ()) -> str:
        """NVRTC's version, flags, headers, arch and the defines."""
        return compiler.key(self.arch, defines, options)

    def remedy_for(self, image: ImageFacts) -> str:
        """Another image, for this architecture."""
        if image.kind == "host":
            return "that runs on the CPU only: compile the source for this GPU"
        return (
            f"compile the source for {self.arch} (nvcc -arch={self.arch} -cubin, or -fatbin with "
            f"this architecture or PTX of an earlier one), or give lowgraph the .cu file"
        )


class HostDevice(Device):
    """The CPU through lowgraph's own libcuda."""

    spec = "host"
    blas_backend = "kernel"
    kind = "host"
    dlpack_device = (_DLPACK_CPU, 0)

    def __init__(self) -> None:
        from lowgraph import hostdev
        from lowgraph.hostdev import control, kernel_build, toolchain

        hostdev.load()
        self._control = control
        self._build = kernel_build
        gate.fault_text = self.fault_text
        super().__init__(0)
        self.arch = f"host-{toolchain.cpu_key()}"
        self.resting_blocks = check.RESTING_BLOCKS if check.enabled() else 0

    def fault_text(self) -> str:
        """Kernel, block, thread and allocation of the fault."""
        return str(self._control.fault_text())

    def annotate(self, address: int, nbytes: int, state: str, name: str) -> None:
        """Guard, poison and name the slice by its state."""
        if state not in _STATES:
            raise ConfigError(f"state {state!r} of {name!r}: must be one of {', '.join(_STATES)}")
        self._control.annotate(address, nbytes, _STATES[state], name)

    def host_view(self, address: int, nbytes: int) -> memoryview | None:
        """Device memory itself, writable."""
        self._control.mark_written(address, nbytes)
        return memoryview((ctypes.c_ubyte * nbytes).from_address(address)).cast("B")

    def reads(self, place: tuple[int, int]) -> bool:
        """The process's memory, as which its own is shared too, and what the driver pinned."""
        return place[0] in (_DLPACK_CPU, *_DLPACK_SHARED) or place == (_DLPACK_CUDA, 0)

    def hand_over(self, stream: int, consumer: int | None) -> None:
        """The consumer is the CPU, which has no stream: the host waits."""
        if consumer not in (None, _NO_ORDER):
            raise BufferError(f"DLPack has no streams on the CPU; asked to order {consumer}")
        if consumer is None:
            streams.synchronize(stream)

    @contextmanager
    def count_calls(self) -> Iterator[CallCount]:
        """Read the library's own counters."""
        count = CallCount("the host device's counters")
        self._control.tally(True)
        before, _ = self._control.tallied()  # not empty when counts are nested
        try:
            yield count
            made, count.python = self._control.tallied()
            count.by_thread = made - before
        finally:
            self._control.tally(False)

    def compile(
        self,
        source: Path,
        include_dirs: Sequence[Path],
        defines: Mapping[str, str],
        options: Sequence[str] = (),
    ) -> bytes:
        """Compile to a shared object with the machine's C++ compiler."""
        return bytes(self._build.compile(source, include_dirs, defines, options))

    def compiler_key(self, defines: Mapping[str, str], options: Sequence[str] = ()) -> str:
        """C++ compiler, flags, CPU, the host device's headers, and the defines."""
        return (
            f"{self._build.compiler_key()} {sorted(defines.items())} {' '.join(options)}".rstrip()
        )

    def remedy_for(self, image: ImageFacts) -> str:
        """The source: there is nothing here that runs a GPU's code."""
        if image.kind in ("host", "unknown"):
            checks = "--check " if check.enabled() else ""
            source = image.source or "FILE.cu"
            return (
                "compile the source on this machine, for a run "
                f"{'with' if checks else 'without'} checks: python -m lowgraph compile "
                f"{checks}{source} -o F"
            )
        return (
            "the host device runs no PTX and no GPU's machine code: give lowgraph the kernels' "
            "source, a .cu file (Library.kernel)"
        )

    def unfit(self, image: ImageFacts) -> str:
        """An image without checks where kernels are checked, and the other way round."""
        if image.kind != "host" or image.checks == check.enabled():
            return ""
        if image.checks:
            return "was compiled with checks, and this run has none"
        return "was compiled without checks: nothing that its kernels do would be seen"

    def place_key(self, source: Path) -> str:
        """The path in the check build, whose findings name it: "" lets equal sources share."""
        return str(source.resolve()) if check.enabled() else ""


def check_driver_version(version: int) -> None:
    """Raise DeviceUnavailable unless a driver of that version serves the installed bindings."""
    have = f"the driver speaks CUDA {version // 1000}.{version % 1000 // 10}"
    if version < _OLDEST_DRIVER:
        raise DeviceUnavailable(f"{have}; lowgraph needs a driver of CUDA 12.4 or later")
    if version // 1000 < compat.BINDINGS_MAJOR:
        raise DeviceUnavailable(
            f"{have}, the installed cuda-bindings are for CUDA {compat.BINDINGS_MAJOR}: "
            f"pip install 'lowgraph[cuda{version // 1000}]', or install a newer driver"
        )
