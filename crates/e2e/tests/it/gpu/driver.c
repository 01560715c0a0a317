// An imitation of NVIDIA's driver: memory of the GPU is memory of the process, a stream does its
// work at once, and the kernel `collect` is a function. Compiled with:
//
//   VERSION=N      version of CUDA: 1000 for each major, 10 for each minor version
//   INCOMPLETE     without the function that starts kernels
//   MEMORY=N       free bytes of the GPU
//   RESET_AFTER=N  the GPU is reset after N pieces of work

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION 12080
#endif
#ifndef MEMORY
#define MEMORY (8ull << 30)
#endif
#ifndef RESET_AFTER
#define RESET_AFTER (1 << 30)
#endif

enum { SUCCESS = 0, OUT_OF_MEMORY = 2, NOT_SUPPORTED = 801, ILLEGAL_ADDRESS = 700 };

static __thread void *current;
static uint64_t used;
static int done;
static char context, stream, module, collect, other;

int cuInit(unsigned flags) { return SUCCESS; }
int cuDriverGetVersion(int *version) { *version = VERSION; return SUCCESS; }
int cuDeviceGet(int *device, int number) { *device = number; return SUCCESS; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = 0; return SUCCESS; }
int cuDeviceGetName(char *name, int room, int device) {
    strncpy(name, "Imitation", room);
    return SUCCESS;
}
int cuDevicePrimaryCtxRetain(void **to, int device) { *to = &context; return SUCCESS; }
int cuDevicePrimaryCtxRelease_v2(int device) { return SUCCESS; }
int cuCtxGetCurrent(void **to) { *to = current; return SUCCESS; }
int cuCtxSetCurrent(void *to) { current = to; return SUCCESS; }
int cuModuleLoadData(void **to, const void *image) { *to = &module; return SUCCESS; }
int cuModuleUnload(void *loaded) { return SUCCESS; }
int cuModuleGetFunction(void **to, void *loaded, const char *name) {
    *to = strcmp(name, "collect") == 0 ? &collect : &other;
    return SUCCESS;
}
int cuStreamCreate(void **to, unsigned flags) { *to = &stream; return SUCCESS; }
int cuStreamDestroy_v2(void *of) { return SUCCESS; }
int cuStreamSynchronize(void *of) { return SUCCESS; }
int cuStreamQuery(void *of) {
    return __atomic_add_fetch(&done, 1, __ATOMIC_RELAXED) > RESET_AFTER ? ILLEGAL_ADDRESS : SUCCESS;
}

int cuMemAlloc_v2(uint64_t *to, size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 256, bytes) != 0) return OUT_OF_MEMORY;
    uint64_t room = malloc_usable_size(memory);
    if (__atomic_add_fetch(&used, room, __ATOMIC_RELAXED) > MEMORY) {
        __atomic_sub_fetch(&used, room, __ATOMIC_RELAXED);
        free(memory);
        return OUT_OF_MEMORY;
    }
    *to = (uint64_t)memory;
    return SUCCESS;
}
int cuMemFree_v2(uint64_t memory) {
    __atomic_sub_fetch(&used, malloc_usable_size((void *)memory), __ATOMIC_RELAXED);
    free((void *)memory);
    return SUCCESS;
}
int cuMemGetInfo_v2(size_t *left, size_t *all) {
    *left = MEMORY - used;
    *all = MEMORY;
    return SUCCESS;
}
int cuMemHostAlloc(void **to, size_t bytes, unsigned flags) {
    return posix_memalign(to, 256, bytes) == 0 ? SUCCESS : OUT_OF_MEMORY;
}
int cuMemFreeHost(void *memory) { free(memory); return SUCCESS; }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *in) {
    memcpy((void *)to, from, bytes);
    return SUCCESS;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *in) {
    memcpy(to, (void *)from, bytes);
    return SUCCESS;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *in) {
    memcpy((void *)to, (void *)from, bytes);
    return SUCCESS;
}

#ifndef INCOMPLETE
int cuLaunchKernel(void *kernel, unsigned blocks, unsigned y, unsigned z, unsigned threads,
                   unsigned y_threads, unsigned z_threads, unsigned shared, void *in, void **given,
                   void **more) {
    if (kernel != &collect) return NOT_SUPPORTED;
    const uint8_t *slots = *(const uint8_t **)given[0];
    uint64_t slot_bytes = *(uint64_t *)given[1];
    const uint64_t *bytes = *(const uint64_t **)given[2], *places = *(const uint64_t **)given[3];
    uint8_t *to = *(uint8_t **)given[4];
    for (unsigned piece = 0; piece < blocks; piece++) {
        memcpy(to + places[piece], slots + piece * slot_bytes, bytes[piece]);
    }
    return SUCCESS;
}
#endif
