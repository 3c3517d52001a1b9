// Steps and bytes of every collective, the same for every backend: CommunicationCount counts them and the cost model
// charges them. n ranks, r this rank, S bytes in total, c_q the bytes of chunk q (S is cut into n chunks of whole
// elements whose sizes differ by at most one element, larger chunks first), b_q the bytes of rank q's block.
//
// | operation      | algorithm                                  | steps  | bytes that leave rank r       | equal parts  |
// |----------------|--------------------------------------------|--------|-------------------------------|--------------|
// | reduce_scatter | ring: passes on every block but its own    | n-1    | sum b_q - b_r                 | (n-1)/n S    |
// | all_gather     | ring: passes on every block but the next's | n-1    | sum b_q - b_(r+1)             | (n-1)/n S    |
// | all_reduce     | reduce_scatter, then all_gather, of chunks | 2(n-1) | 2S - c_r - c_(r+1)            | 2(n-1)/n S   |
// | all_to_all     | pairwise exchange                          | n-1    | sum over q != r of inputs[q]  | (n-1)/n S    |
// | broadcast      | pipelined chain from the root              | n-1    | S; 0 at the end of the chain  | S            |
// | send           | one message                                | 1      | S; 0 to itself                | S            |
// | barrier        |                                            | 1      | 0                             | 0            |
//
// Indices are modulo n. A group of one sends nothing and takes no steps. The ring algorithms follow Patarasuk and Yuan,
// "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
#pragma once

#include <cstdint>
#include <span>

namespace trireme {

/// Steps of all_gather, reduce_scatter, all_to_all and broadcast; all_reduce takes twice as many.
inline int64_t ring_steps(int ranks) { return ranks - 1; }

/// Steps of send and barrier.
inline int64_t one_step(int ranks) { return ranks > 1 ? 1 : 0; }

/// Returns the number of elements of chunk `index` when `elements` are cut into `parts`.
int64_t chunk_elements(int64_t elements, int parts, int index);

int64_t all_reduce_bytes(int64_t elements, int64_t element_size, int ranks, int rank);

/// `blocks[q]`: bytes of rank q's block.
int64_t reduce_scatter_bytes(std::span<const int64_t> blocks, int rank);
int64_t all_gather_bytes(std::span<const int64_t> blocks, int rank);

/// `blocks[q]`: bytes that this rank sends to rank q.
int64_t all_to_all_bytes(std::span<const int64_t> blocks, int rank);

int64_t broadcast_bytes(int64_t bytes, int ranks, int rank, int root);

}  // namespace trireme
