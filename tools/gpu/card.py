"""What the scripts of this folder share: one card as the driver counts it, memory taken from it, programs run beside it."""
import ctypes
import json
import os
import subprocess
import sys
import time

MIB = 1 << 20


class Card:
    """The first NVIDIA card, through NVML."""

    def __init__(self):
        self.nvml = ctypes.CDLL('libnvidia-ml.so.1')
        self.handle = ctypes.c_void_p()
        if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)):
            raise OSError('the NVIDIA driver shows no card')

    def used_mib(self):
        total_free_used = (ctypes.c_ulonglong * 3)()
        self.nvml.nvmlDeviceGetMemoryInfo(self.handle, total_free_used)
        return total_free_used[2] / MIB

    def wait_until_free(self, mib):
        """A process that ended gives its memory back a moment later."""
        for _ in range(40):
            if self.used_mib() <= mib + 2:
                return
            time.sleep(0.05)


def find_card():
    try:
        return Card()
    except OSError:
        return None


class Ballast:
    """A process that takes memory of the card until only so much is left, and gives all back when it ends."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def leave(self, mib):
        self.process.stdin.write(f'{mib}\n')
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        time.sleep(0.3)


def be_ballast():
    cuda = ctypes.CDLL('libcuda.so.1')
    device, context, pointer = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device):
        sys.exit('ballast: no card')
    cuda.cuCtxSetCurrent(context)

    def left():
        cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return free.value

    print('up', flush=True)
    for line in sys.stdin:
        want, taken = int(line) * MIB, 0
        step = left() - want
        while step >= MIB:
            if cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(step)):
                step //= 2
                continue
            taken += step
            step = min(step, left() - want)
        print(f'{taken // MIB} MiB taken, {left() // MIB} left', flush=True)


def environment(**more):
    return {**os.environ, **{k: v for k, v in more.items() if v is not None}}


def run_json(command, env=None, timeout=600):
    """What a command prints, as JSON; None and its last words when it failed."""
    try:
        p = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None, f'took more than {timeout:.0f} s'
    try:
        return json.loads(p.stdout), ''
    except ValueError:
        return None, (p.stderr or p.stdout).strip()[-400:]


if __name__ == '__main__':
    be_ballast()
