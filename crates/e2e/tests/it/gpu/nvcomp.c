// An imitation of nvCOMP, whose GPU is the process. Its zstd frames consist of blocks of one
// repeated byte, and of blocks as they are. Compiled with:
//
//   NVCOMP=N     version: 1000 for each major, 100 for each minor version
//   BAD_BATCH=N  the last frame of batch N has other data

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#ifndef NVCOMP
#define NVCOMP 6000
#endif
#ifndef BAD_BATCH
#define BAD_BATCH (1 << 30)
#endif
// Length of a block, in bytes.
#define BLOCK 512

typedef struct { uint32_t words[16]; } Options;

int nvcompGetProperties(uint32_t *properties) {
    properties[0] = NVCOMP;
    properties[1] = 12080;
    return 0;
}
int nvcompBatchedZstdCompressGetTempSize(size_t count, size_t each, Options options, size_t *needed,
                                         size_t all, void *stream) {
    *needed = 16;
    return 0;
}
int nvcompBatchedZstdCompressGetMaxOutputChunkSize(size_t each, Options options, size_t *most) {
    *most = each + 16 + 3 * (each / BLOCK + 1);
    return 0;
}
int nvcompBatchedZstdDecompressGetTempSize(size_t count, size_t each, Options options,
                                           size_t *needed, size_t all, void *stream) {
    return 1;
}
int nvcompBatchedZstdDecompressAsync(const void *const *inputs, const size_t *input_bytes,
                                     const size_t *rooms, size_t *output_bytes, size_t count,
                                     void *temp, size_t temp_bytes, void *const *outputs,
                                     Options options, int *statuses, void *stream) {
    return 1;
}

// Writes a frame of `data` and returns its length. Source: RFC 8878, sections 3.1.1.1 and 3.1.1.2.
static size_t frame(const uint8_t *data, size_t bytes, uint8_t *to) {
    uint8_t *at = to;
    // The magic number, then a single segment whose length has four bytes.
    memcpy(at, "\x28\xb5\x2f\xfd\xa0", 5);
    at += 5;
    for (int shift = 0; shift < 32; shift += 8) *at++ = (uint8_t)(bytes >> shift);
    for (size_t start = 0; start < bytes; start += BLOCK) {
        size_t length = bytes - start < BLOCK ? bytes - start : BLOCK;
        const uint8_t *block = data + start;
        int is_repeated = memcmp(block, block + 1, length - 1) == 0;
        int is_last = start + length == bytes;
        uint32_t header = (uint32_t)length << 3 | (uint32_t)is_repeated << 1 | (uint32_t)is_last;
        for (int shift = 0; shift < 24; shift += 8) *at++ = (uint8_t)(header >> shift);
        size_t stored = is_repeated ? 1 : length;
        memcpy(at, block, stored);
        at += stored;
    }
    return (size_t)(at - to);
}

int nvcompBatchedZstdCompressAsync(const void *const *inputs, const size_t *input_bytes,
                                   size_t each, size_t count, void *temp, size_t temp_bytes,
                                   void *const *outputs, size_t *output_bytes, Options options,
                                   int *statuses, void *stream) {
    static int batches;
    for (size_t piece = 0; piece < count; piece++) {
        output_bytes[piece] = frame(inputs[piece], input_bytes[piece], outputs[piece]);
        statuses[piece] = 0;
    }
    if (__atomic_add_fetch(&batches, 1, __ATOMIC_RELAXED) == BAD_BATCH) {
        ((uint8_t *)outputs[count - 1])[output_bytes[count - 1] - 1] ^= 1;
    }
    // Batches of several quanta come about while the GPU works.
    usleep(50000);
    return 0;
}
