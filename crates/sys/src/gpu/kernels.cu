// Kernels of the GPU: collecting compressed pieces, and BLAKE3 of chunks.
//
// kernels.ptx is made from this file and is compiled for the GPU at hand by its driver. To make
// it again:
//
//     nvcc -ptx -arch=compute_75 -o kernels.ptx kernels.cu
//
// Then replace the first line of kernels.ptx by the one that the test `kernels_are_current` prints.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// Copies each piece of a batch from its slot to its place, so that the pieces lie without gaps.
// One block of threads copies one piece.
extern "C" __global__ void collect(const u8 *slots, u64 slot_bytes, const u64 *bytes,
                                   const u64 *places, u8 *to) {
    const u8 *source = slots + blockIdx.x * slot_bytes;
    u8 *target = to + places[blockIdx.x];
    u64 length = bytes[blockIdx.x];
    // A slot is aligned to 16 bytes, its place is not. Writing four bytes at once needs the
    // place's alignment.
    u64 head = (4 - (places[blockIdx.x] & 3)) & 3;
    if (head > length) head = length;
    if (threadIdx.x < head) target[threadIdx.x] = source[threadIdx.x];
    u64 words = (length - head) / 4;
    u32 shift = (u32)head * 8;
    const u32 *in = (const u32 *)source;
    u32 *out = (u32 *)(target + head);
    for (u64 at = threadIdx.x; at < words; at += blockDim.x) {
        out[at] = shift == 0 ? in[at] : __funnelshift_r(in[at], in[at + 1], shift);
    }
    u64 tail = head + words * 4 + threadIdx.x;
    if (tail < length) target[tail] = source[tail];
}

// BLAKE3, see https://github.com/BLAKE3-team/BLAKE3-specs. A chunk of a backup consists of leaves
// of 1024 bytes; BLAKE3's paper calls a leaf a chunk.

#define LEAF_BYTES 1024
#define BLOCK_BYTES 64
#define START 1u
#define END 2u
#define PARENT 4u
#define ROOT 8u
#define KEYED 16u

struct Key {
    u32 words[8];
};

__device__ __forceinline__ u32 rotated(u32 word, u32 by) { return __funnelshift_r(word, word, by); }

__device__ __forceinline__ void mix(u32 &a, u32 &b, u32 &c, u32 &d, u32 x, u32 y) {
    a = a + b + x;
    d = rotated(d ^ a, 16);
    c = c + d;
    b = rotated(b ^ c, 12);
    a = a + b + y;
    d = rotated(d ^ a, 8);
    c = c + d;
    b = rotated(b ^ c, 7);
}

// Compresses one block into the chaining value `cv`.
__device__ void compress(u32 cv[8], u32 m[16], u64 counter, u32 bytes, u32 flags) {
    u32 v[16] = {cv[0], cv[1], cv[2], cv[3], cv[4], cv[5], cv[6], cv[7],
                 0x6A09E667u, 0xBB67AE85u, 0x3C6EF372u, 0xA54FF53Au,
                 (u32)counter, (u32)(counter >> 32), bytes, flags};
#pragma unroll
    for (int round = 0; round < 7; round++) {
        mix(v[0], v[4], v[8], v[12], m[0], m[1]);
        mix(v[1], v[5], v[9], v[13], m[2], m[3]);
        mix(v[2], v[6], v[10], v[14], m[4], m[5]);
        mix(v[3], v[7], v[11], v[15], m[6], m[7]);
        mix(v[0], v[5], v[10], v[15], m[8], m[9]);
        mix(v[1], v[6], v[11], v[12], m[10], m[11]);
        mix(v[2], v[7], v[8], v[13], m[12], m[13]);
        mix(v[3], v[4], v[9], v[14], m[14], m[15]);
        const u32 next[16] = {m[2], m[6], m[3], m[10], m[7], m[0], m[4], m[13],
                              m[1], m[11], m[12], m[5], m[9], m[14], m[15], m[8]};
#pragma unroll
        for (int word = 0; word < 16; word++) m[word] = next[word];
    }
#pragma unroll
    for (int word = 0; word < 8; word++) cv[word] = v[word] ^ v[word + 8];
}

// Loads a block of `bytes` bytes, followed by zeros. The memory of the data ends at least four
// bytes after it.
__device__ void load(u32 m[16], const u8 *data, u32 bytes) {
    u32 shift = (u32)((u64)data & 3) * 8;
    const u32 *words = (const u32 *)((u64)data & ~3ull);
#pragma unroll
    for (int word = 0; word < 16; word++) {
        u32 left = bytes > word * 4 ? bytes - word * 4 : 0;
        u32 value = 0;
        if (left > 0) {
            value = shift == 0 ? words[word] : __funnelshift_r(words[word], words[word + 1], shift);
        }
        if (left < 4) value &= (1u << (left * 8)) - 1;
        m[word] = value;
    }
}

// Returns the number of the chunk with a leaf.
__device__ u32 chunk_of(const u32 *first_leaves, u32 chunks, u32 leaf) {
    u32 low = 0, high = chunks;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (first_leaves[middle] <= leaf) low = middle; else high = middle;
    }
    return low;
}

// Computes the chaining value of each leaf. One thread does one leaf. `first_leaves` has one entry
// more than there are chunks.
extern "C" __global__ void leaves(const u8 *data, const u64 *offsets, const u32 *lengths,
                                  const u32 *first_leaves, u32 chunks, Key key, u32 *values) {
    u32 leaf = blockIdx.x * blockDim.x + threadIdx.x;
    if (leaf >= first_leaves[chunks]) return;
    u32 chunk = chunk_of(first_leaves, chunks, leaf);
    u32 number = leaf - first_leaves[chunk];
    u32 begin = number * LEAF_BYTES;
    u32 bytes = min(lengths[chunk] - begin, (u32)LEAF_BYTES);
    bool is_only = first_leaves[chunk + 1] - first_leaves[chunk] == 1;
    const u8 *from = data + offsets[chunk] + begin;
    u32 cv[8];
#pragma unroll
    for (int word = 0; word < 8; word++) cv[word] = key.words[word];
    u32 blocks = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    for (u32 block = 0; block < blocks; block++) {
        u32 length = min(bytes - block * BLOCK_BYTES, (u32)BLOCK_BYTES);
        u32 flags = KEYED | (block == 0 ? START : 0);
        if (block + 1 == blocks) flags |= END | (is_only ? ROOT : 0);
        u32 m[16];
        load(m, from + block * BLOCK_BYTES, length);
        compress(cv, m, number, length, flags);
    }
#pragma unroll
    for (int word = 0; word < 8; word++) values[(u64)leaf * 8 + word] = cv[word];
}

// Joins the chaining values of each chunk's leaves to its digest. 32 threads do one chunk. Pairs
// are joined level by level; a value without a partner goes up as it is, which makes the tree of
// BLAKE3.
extern "C" __global__ void parents(u32 *values, const u32 *first_leaves, u32 chunks, Key key,
                                   u32 *digests) {
    u32 chunk = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    u32 lane = threadIdx.x % 32;
    if (chunk >= chunks) return;
    u32 *tree = values + (u64)first_leaves[chunk] * 8;
    u32 count = first_leaves[chunk + 1] - first_leaves[chunk];
    while (count > 1) {
        u32 joined = (count + 1) / 2;
        u32 root = joined == 1 ? ROOT : 0;
        for (u32 base = 0; base < joined; base += 32) {
            u32 at = base + lane;
            bool has_pair = at < joined && at * 2 + 1 < count;
            bool is_single = at < joined && !has_pair;
            u32 m[16], cv[8];
            if (has_pair) {
#pragma unroll
                for (int word = 0; word < 16; word++) m[word] = tree[(u64)at * 16 + word];
            }
            if (is_single) {
#pragma unroll
                for (int word = 0; word < 8; word++) cv[word] = tree[(u64)at * 16 + word];
            }
            // All values are read before one of them is replaced.
            __syncwarp();
            if (has_pair) {
#pragma unroll
                for (int word = 0; word < 8; word++) cv[word] = key.words[word];
                compress(cv, m, 0, BLOCK_BYTES, KEYED | PARENT | root);
            }
            if (at < joined) {
#pragma unroll
                for (int word = 0; word < 8; word++) tree[(u64)at * 8 + word] = cv[word];
            }
            __syncwarp();
        }
        count = joined;
    }
    if (lane < 8) digests[(u64)chunk * 8 + lane] = tree[lane];
}
