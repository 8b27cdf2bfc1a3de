// In place of the C library's, whose failed assertion ends the process: here it ends the launch, as on
// a GPU. No guard: each inclusion, <cassert> too, goes by what NDEBUG is then.
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) \
    ((condition)          \
         ? (void)0        \
         : lowgraph_trap(710, "device-side assert failed: " #condition, __FILE__, __LINE__))
#endif
