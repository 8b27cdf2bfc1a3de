// A countdown that a WHILE runs, and an accumulation that an IF runs. Launch: one thread each.

// left = limit; again = limit > 0   overwrites.   All [1].
extern "C" __global__ void begin_count(int* left, int* again, const int* limit)
{
    left[0] = limit[0];
    again[0] = limit[0] > 0;
}

// sum += left; --left; again = left > 0   accumulates into sum.   All [1].
extern "C" __global__ void count_down(int* left, int* again, long long* sum)
{
    sum[0] += left[0];
    left[0] -= 1;
    again[0] = left[0] > 0;
}

// sum += by   accumulates.   sum: [1].
extern "C" __global__ void add_to(long long* sum, int by)
{
    sum[0] += by;
}
