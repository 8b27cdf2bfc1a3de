// A kernel that looks at memory until the host lets it go; flags: it runs, it may end, it has ended.
extern "C" __global__ void waits_for_the_host(volatile int* flags) {
    flags[0] = 1;
    while (flags[1] == 0) {
    }
    flags[2] = 1;
}
