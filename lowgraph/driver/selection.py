"""Which device this process has: chosen once, by `open_device`, and never changed."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys

from lowgraph.driver import context, forked
from lowgraph.driver.device import CudaDevice, Device, HostDevice
from lowgraph.errors import ConfigError, DeviceUnavailable, DriverError
from lowgraph.hostdev import check

_DRIVER = "libcuda.so.1"

# Asked in a process of its own: once this process has loaded NVIDIA's library, the host device's,
# which has the same SONAME, could not be loaded any more.
_PROBE = f"""
import ctypes, sys
try:
    driver = ctypes.CDLL("{_DRIVER}")
except OSError as error:
    sys.exit(f"no CUDA driver library ({{error}})")
code = driver.cuInit(0)
if code:
    sys.exit(f"cuInit of the CUDA driver answers {{code}}")
count = ctypes.c_int()
code = driver.cuDeviceGetCount(ctypes.byref(count))
if code or not count.value:
    sys.exit("the CUDA driver has no device")
"""

_lock = forked.lock()
_device: Device | None = None


def open_device(spec: str = "auto") -> Device:
    """Open the process's device, or return it when it is open already.

    spec: "auto" (cuda:0 if a driver answers, else the host device), "host", "cuda" or "cuda:N".
    Raises ConfigError for another spec, DeviceUnavailable when the device is not there or this
    process has another one, ForkedProcess in a child of a process that had opened one, BuildError
    when the host device cannot be built.
    """
    global _device
    _check(spec)
    forked.check()
    with _lock:
        if _device is None:
            _device = _open(_resolve(spec))
            forked.watch(_device.spec)
            context.adopt(_device.spec, _device.context)
        elif not _same(spec, _device):
            raise DeviceUnavailable(
                f"this process already has the device {_device.spec}; "
                f"{spec} needs a process of its own"
            )
        return _device


def current() -> Device:
    """Return the open device; raises DeviceUnavailable before `open_device`, ForkedProcess."""
    forked.check()
    if _device is None:
        raise DeviceUnavailable("no device is open yet: call lowgraph.driver.open_device() first")
    return _device


def probe() -> str | None:
    """Return None if a CUDA driver with a device answers on this machine, else why not."""
    command = [sys.executable, "-S", "-c", _PROBE]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the CUDA driver could not be probed: {error}"
    if answer.returncode == 0:
        return None
    lines = answer.stderr.strip().splitlines()
    return lines[-1] if lines else f"probing the CUDA driver ended with {answer.returncode}"


def _check(spec: str) -> None:
    if not isinstance(spec, str) or not re.fullmatch(r"auto|host|cuda(:\d+)?", spec):
        raise ConfigError(f"device {spec!r}: must be auto, host, cuda or cuda:N")


def _same(spec: str, device: Device) -> bool:
    wanted = "cuda:0" if spec == "cuda" else spec
    return wanted in ("auto", device.spec)


def _resolve(spec: str) -> str:
    """Return "host" or "cuda:N", refusing what the libraries already loaded rule out."""
    if check.enabled():
        if spec.startswith("cuda"):
            raise DeviceUnavailable(
                f"device {spec}: the check build runs kernels on the host device only; take "
                f"--device host or auto, or unset ${check.SWITCH}"
            )
        spec = "host"
    loaded = _loaded_driver()
    if spec == "auto":
        return loaded or ("host" if probe() else "cuda:0")
    wanted = "cuda:0" if spec == "cuda" else spec
    if loaded is not None and loaded.partition(":")[0] != wanted.partition(":")[0]:
        has = "host device's" if loaded == "host" else "CUDA driver's"
        raise DeviceUnavailable(
            f"this process has already loaded the {has} {_DRIVER}; "
            f"{spec} needs a process that has not"
        )
    return wanted


def _loaded_driver() -> str | None:
    """Return which libcuda this process has loaded: "host", "cuda:0" (NVIDIA's) or None."""
    try:
        library = ctypes.CDLL(_DRIVER, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return None
    return "host" if hasattr(library, "lowgraph_host_calls") else "cuda:0"


def _open(spec: str) -> Device:
    if spec == "host":
        return HostDevice()
    try:
        return CudaDevice(int(spec.partition(":")[2]))
    except DriverError as error:
        raise DeviceUnavailable(
            f"{spec} cannot be opened: {error}; run on the host device (--device host)"
        ) from error
