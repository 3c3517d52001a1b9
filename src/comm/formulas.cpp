#include "comm/formulas.h"

#include <numeric>

namespace trireme {
namespace {

int64_t all_but(std::span<const int64_t> blocks, int index) {
  return std::accumulate(blocks.begin(), blocks.end(), int64_t{0}) - blocks[index];
}

}  // namespace

int64_t chunk_elements(int64_t elements, int parts, int index) {
  return elements / parts + (index < elements % parts ? 1 : 0);
}

int64_t all_reduce_bytes(int64_t elements, int64_t element_size, int ranks, int rank) {
  if (ranks == 1) return 0;
  return element_size *
         (2 * elements - chunk_elements(elements, ranks, rank) - chunk_elements(elements, ranks, (rank + 1) % ranks));
}

int64_t reduce_scatter_bytes(std::span<const int64_t> blocks, int rank) { return all_but(blocks, rank); }

int64_t all_gather_bytes(std::span<const int64_t> blocks, int rank) {
  return all_but(blocks, (rank + 1) % static_cast<int>(blocks.size()));
}

int64_t all_to_all_bytes(std::span<const int64_t> blocks, int rank) { return all_but(blocks, rank); }

int64_t broadcast_bytes(int64_t bytes, int ranks, int rank, int root) {
  const bool end_of_chain = rank == (root + ranks - 1) % ranks;
  return end_of_chain ? 0 : bytes;
}

}  // namespace trireme
