// Divided tensors against the full one, with ranks as threads. Values are their own indices: a sample that is lost, doubled or parted
// from its target is seen.
#include "data/distributed_tensor.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <numeric>
#include <random>
#include <set>

#include "comm/backends.h"
#include "data/sampler.h"
#include "model/weights/safetensors.h"
#include "support.h"
#include "support/ranks.h"

namespace trireme {
namespace {

using namespace trireme::testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Mesh mesh_of(int data, int tensor) {
  Mesh mesh{.workers = {}, .data = data, .tensor = tensor};
  for (int rank = 0; rank < data * tensor; ++rank) mesh.workers.push_back(rank);
  return mesh;
}

/// Sample i is [3 i, 3 i + 1, 3 i + 2].
at::Tensor numbered(int64_t n) { return at::arange(3 * n, at::kLong).view({n, 3}); }

struct Case {
  int data, tensor;
  int64_t samples, rows, columns;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.samples << " samples in " << c.rows << "x" << c.columns << " blocks on " << c.data << "x" << c.tensor << " workers";
}

class Divided : public ::testing::TestWithParam<Case> {
 protected:
  Mesh mesh() const { return mesh_of(GetParam().data, GetParam().tensor); }
  BlockGrid grid() const { return grid_of(GetParam().samples, GetParam().rows, GetParam().columns); }
  int workers() const { return GetParam().data * GetParam().tensor; }
};

INSTANTIATE_TEST_SUITE_P(Sizes, Divided,
                         ::testing::Values(Case{1, 1, 10, 1, 1}, Case{1, 1, 10, 3, 2}, Case{2, 1, 10, 4, 1}, Case{3, 1, 100, 7, 1},
                                           Case{2, 2, 41, 3, 5}, Case{4, 1, 3, 4, 1}, Case{2, 3, 1, 2, 3}, Case{4, 2, 5, 2, 9},
                                           Case{3, 1, 0, 2, 2}, Case{3, 1, 12, 1, 4}));

TEST_P(Divided, HoldsEverySampleOnce) {
  const int64_t n = GetParam().samples;
  std::mutex mutex;
  std::multiset<int64_t> held;
  run_ranks(workers(), [&](Communicator& world) {
    const DistributedTensor x = DistributedTensor::from_tensor(numbered(n), grid(), mesh(), world);
    const std::vector<int64_t> indices = x.local_indices();
    EXPECT_TRUE(at::equal(x.local(), numbered(n).index_select(0, at::tensor(indices, at::kLong))));
    for (int64_t i = 0; i < x.grid().rows; ++i)
      for (int64_t j = 0; j < x.grid().columns; ++j)
        if (const Range range = x.grid().range(i, j); x.holds(i, j))
          EXPECT_TRUE(at::equal(x.block(i, j), numbered(n).slice(0, range.begin, range.end)));
        else
          error_of([&] { x.block(i, j); }, Blame::run);
    EXPECT_TRUE(at::equal(x.gather(), numbered(n)));
    std::lock_guard lock(mutex);
    held.insert(indices.begin(), indices.end());
  });
  EXPECT_EQ(static_cast<int64_t>(held.size()), n);
  EXPECT_EQ(std::set<int64_t>(held.begin(), held.end()).size(), held.size());
}

TEST_P(Divided, ShufflesAllSamplesWithTheirTargetsAsOneDeviceWould) {
  const int64_t n = GetParam().samples;
  const at::Tensor order = at::tensor(sample_order(n, 9, 4), at::kLong), targets = at::arange(n, at::kFloat);
  run_ranks(workers(), [&](Communicator& world) {
    const DistributedTensor x = DistributedTensor::from_tensor(numbered(n), grid(), mesh(), world);
    const DistributedTensor y = DistributedTensor::from_tensor(targets, grid(), mesh(), world);
    const auto [data, target] = shuffle(x, y, 9, 4);
    EXPECT_TRUE(at::equal(data.local().select(1, 0), 3 * target.local().to(at::kLong))) << "on each worker";
    EXPECT_TRUE(at::equal(data.gather(), numbered(n).index_select(0, order)));
    EXPECT_TRUE(at::equal(target.gather(), targets.index_select(0, order)));
    EXPECT_TRUE(at::equal(x.gather(), numbered(n))) << "the old one stays";
  });
}

TEST_P(Divided, IsCutAnew) {
  const int64_t n = GetParam().samples;
  run_ranks(workers(), [&](Communicator& world) {
    const DistributedTensor x = DistributedTensor::from_tensor(numbered(n), grid(), mesh(), world);
    for (const BlockGrid& other : {grid_of(n, 1, 1), grid_of(n, 5, 2), grid_of_blocks(n, 2), grid_of_blocks(n, 3, 4)}) {
      const DistributedTensor cut = x.rechunk(other);
      EXPECT_EQ(cut.grid(), other);
      EXPECT_EQ(cut.local().size(0), static_cast<int64_t>(cut.local_indices().size()));
      EXPECT_TRUE(at::equal(cut.local(), numbered(n).index_select(0, at::tensor(cut.local_indices(), at::kLong))));
    }
  });
}

TEST_P(Divided, MapsBlocksAndPutsTensorsTogether) {
  const int64_t n = GetParam().samples;
  const at::Tensor sums = numbered(n).sum(1).to(at::kFloat);
  run_ranks(workers(), [&](Communicator& world) {
    const DistributedTensor x = DistributedTensor::from_tensor(numbered(n), grid(), mesh(), world);
    const DistributedTensor mapped = x.map([](const at::Tensor& block) { return block.sum(1).to(at::kFloat); });
    EXPECT_EQ(mapped.dtype(), at::kFloat);
    EXPECT_EQ(mapped.sample_shape(), Shape{}) << "a worker without samples knows it too";
    EXPECT_TRUE(at::equal(mapped.gather(), sums));
    const std::vector<DistributedTensor> both{mapped, mapped.shuffled(1, 0)};
    const DistributedTensor all = DistributedTensor::cat(both, grid_of(2 * n, 3, 1));
    EXPECT_TRUE(at::equal(all.gather(), at::cat({sums, both[1].gather()})));
  });
}

TEST_P(Divided, AppliesInPlace) {
  const int64_t n = GetParam().samples;
  run_ranks(workers(), [&](Communicator& world) {
    DistributedTensor x = DistributedTensor::from_tensor(numbered(n), grid(), mesh(), world);
    const DistributedTensor copy = x;
    x.apply([](at::Tensor& block) { block.add_(1); });
    EXPECT_TRUE(at::equal(copy.gather(), numbered(n) + 1));
  });
}

TEST(BlockGrid, CutsSlicesInOrderWithAShortLastOne) {
  const BlockGrid grid = grid_of(11, 2, 2);
  EXPECT_EQ(grid.range(0, 0), (Range{0, 3}));
  EXPECT_EQ(grid.range(0, 1), (Range{3, 6})) << "columns go on where the one before ends";
  EXPECT_EQ(grid.range(1, 0), (Range{6, 9}));
  EXPECT_EQ(grid.range(1, 1), (Range{9, 11}));
  EXPECT_EQ(grid_of_blocks(11, 4, 2), (BlockGrid{11, 2, 2, 4}));
  EXPECT_TRUE(grid_of_blocks(11, 4, 2).range(1, 1).empty());
  EXPECT_THAT(error_of([] { grid_of(3, 0, 1); }), HasSubstr("0 x 1"));
  EXPECT_THAT(error_of([] { grid_of_blocks(3, 0); }), HasSubstr("0 samples per block"));
}

TEST(DistributedTensor, LaysBlocksOutOverBothAxes) {
  run_ranks(6, [](Communicator& world) {
    const DistributedTensor x = DistributedTensor::from_tensor(numbered(40), grid_of(40, 4, 4), mesh_of(3, 2), world);
    std::vector<int> owners;
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t j = 0; j < 3; ++j) owners.push_back(x.owner(i, j));
    EXPECT_THAT(owners, ElementsAre(0, 1, 0, 2, 3, 2, 4, 5, 4, 0, 1, 0));
  });
}

TEST(DistributedTensor, LeavesRanksOutsideTheMeshWithoutSamples) {
  run_ranks(3, [](Communicator& world) {
    const Mesh mesh{.workers = {2, 0}, .data = 2, .tensor = 1};
    const DistributedTensor x = DistributedTensor::from_tensor(numbered(5), grid_of(5, 5, 1), mesh, world);
    EXPECT_EQ(x.local().size(0), world.rank() == 2 ? 3 : world.rank() == 0 ? 2 : 0);
    EXPECT_TRUE(at::equal(x.shuffled(3, 1).gather().select(1, 0), 3 * at::tensor(sample_order(5, 3, 1), at::kLong)));
  });
}

TEST(DistributedTensor, SendsASampleOnceAndOnlyWhereItGoes) {
  const int64_t n = 64;
  std::mutex mutex;
  int64_t sent = 0, moved = 0;
  run_ranks(4, [&](Communicator& world) {
    const DistributedTensor x = DistributedTensor::from_tensor(numbered(n), grid_of(n, 4, 1), mesh_of(4, 1), world);
    const std::vector<int64_t> order = sample_order(n, 1, 0);
    const int64_t before = world.count().bytes_sent;
    const DistributedTensor shuffled = x.shuffled(1, 0);
    std::lock_guard lock(mutex);
    sent += world.count().bytes_sent - before;
    for (const int64_t i : shuffled.local_indices()) moved += order[static_cast<size_t>(i)] / 16 != world.rank();
  });
  EXPECT_EQ(sent, moved * 3 * 8);
  EXPECT_GT(moved, 30) << "three of four samples change their worker";
}

TEST(DistributedTensor, RefusesFunctionsThatLoseSamplesOrDisagree) {
  const auto run = [](const std::function<at::Tensor(const at::Tensor&)>& f) {
    return error_of([&] {
      run_ranks(2, [&](Communicator& world) {
        DistributedTensor::from_tensor(numbered(6), grid_of(6, 2, 1), mesh_of(2, 1), world).map(f);
      });
    });
  };
  EXPECT_THAT(run([](const at::Tensor& block) { return block.slice(0, 1); }), HasSubstr("3 samples became [2, 3]"));
  EXPECT_THAT(run([](const at::Tensor& block) { return block[0][0].item<int64_t>() == 0 ? block : block.to(at::kFloat); }),
              HasSubstr("workers have samples of different shapes or dtypes"));
  EXPECT_THAT(error_of([] {
                run_ranks(1, [](Communicator& world) {
                  const auto x = DistributedTensor::from_tensor(numbered(6), grid_of(6, 2, 1), mesh_of(1, 1), world);
                  x.rechunk(grid_of(5, 1, 1));
                });
              }),
              AllOf(HasSubstr("5 samples"), HasSubstr("has 6")));
}

std::string npy_of(const at::Tensor& tensor) {
  std::string header = "{'descr': '<i8', 'fortran_order': False, 'shape': (" + std::to_string(tensor.size(0)) + ", 3), }\n";
  const at::Tensor values = tensor.contiguous();
  return std::string("\x93NUMPY\1\0", 8) + std::string{static_cast<char>(header.size()), '\0'} + header +
         std::string(static_cast<const char*>(values.data_ptr()), values.nbytes());
}

TEST(DistributedTensor, ReadsBlocksFromFilesAcrossTheirEnds) {
  TemporaryFolder folder;
  const std::vector<int64_t> cuts{0, 7, 7, 8, 20};
  std::vector<std::filesystem::path> files;
  for (size_t i = 1; i < cuts.size(); ++i) {
    files.push_back(folder / (std::to_string(i) + ".npy"));
    write_file(files.back(), npy_of(numbered(20).slice(0, cuts[i - 1], cuts[i])));
  }
  for (const int64_t k : {1, 3, 6, 20, 50}) {
    run_ranks(3, [&](Communicator& world) {
      const DistributedTensor x = DistributedTensor::from_files(files, "data", k, 2, mesh_of(3, 1), world);
      EXPECT_EQ(x.grid(), grid_of_blocks(20, k, 2));
      EXPECT_TRUE(at::equal(x.local(), numbered(20).index_select(0, at::tensor(x.local_indices(), at::kLong))));
      EXPECT_TRUE(at::equal(x.gather(), numbered(20)));
    });
  }
  const auto read = [&](std::vector<std::filesystem::path> some) {
    return error_of([&] {
      run_ranks(1, [&](Communicator& world) { DistributedTensor::from_files(some, "data", 2, 1, mesh_of(1, 1), world); });
    });
  };
  write_safetensors(folder / "5.safetensors", {{"data", numbered(24).slice(0, 20, 24).contiguous()}, {"other", at::ones({1})}});
  files.push_back(folder / "5.safetensors");
  run_ranks(2, [&](Communicator& world) {
    const DistributedTensor x = DistributedTensor::from_files(files, "data", 5, 1, mesh_of(2, 1), world);
    EXPECT_TRUE(at::equal(x.gather(), numbered(24)));
  });
  std::string floats = npy_of(numbered(2));
  floats[floats.find("<i8") + 1] = 'f';
  write_file(folder / "f.npy", floats);
  EXPECT_THAT(read({files[0], folder / "f.npy"}), AllOf(HasSubstr("f.npy"), HasSubstr("Double"), HasSubstr("Long")));
  EXPECT_THAT(read({folder / "no.npy"}), HasSubstr("no.npy"));
  write_safetensors(folder / "6.safetensors", {{"x", numbered(2)}});
  EXPECT_THAT(read({folder / "6.safetensors"}), AllOf(HasSubstr("6.safetensors"), HasSubstr("no tensor \"data\"")));
  EXPECT_THAT(read({}), HasSubstr("no files"));
}

TEST(DistributedTensor, WorksAmongProcessesThatShareNothing) {
  if (!gloo_available()) GTEST_SKIP() << "this build has no gloo";
  for (const at::ScalarType type : {at::kFloat, at::kByte, at::kBool, at::kHalf}) {
    const at::Tensor values = numbered(11).remainder(2).to(type);
    run_gloo_ranks(3, [&](Communicator& world) {
      const DistributedTensor x = DistributedTensor::from_tensor(values, grid_of(11, 2, 2), mesh_of(3, 1), world);
      const at::Tensor expected = values.index_select(0, at::tensor(sample_order(11, 2, 0), at::kLong));
      EXPECT_TRUE(at::equal(x.shuffled(2, 0).rechunk(grid_of(11, 7, 1)).gather(), expected));
    });
  }
}

/// Random sizes, grids and meshes: any chain of operations gives what it gives on one tensor.
TEST(DistributedTensor, GivesWhatTheFullTensorGives) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  for (int round = 0; round < 15; ++round) {
    const int data = 1 + below(4), tensor = 1 + below(2);
    const int64_t n = below(60);
    at::Tensor full = numbered(n);
    struct Step {
      int what;
      BlockGrid grid;
      uint64_t seed;
    };
    std::vector<Step> steps;
    const BlockGrid first = grid_of(n, 1 + below(6), 1 + below(4));
    for (int s = 0; s < 5; ++s) steps.push_back({below(3), grid_of(n, 1 + below(6), 1 + below(4)), static_cast<uint64_t>(below(100))});
    for (const Step& step : steps) {
      if (step.what == 1) full = full.index_select(0, at::tensor(sample_order(n, step.seed, 1), at::kLong));
      if (step.what == 2) full = full * 2 + 1;
    }
    run_ranks(data * tensor, [&](Communicator& world) {
      DistributedTensor x = DistributedTensor::from_tensor(numbered(n), first, mesh_of(data, tensor), world);
      for (const Step& step : steps) {
        if (step.what == 0) x = x.rechunk(step.grid);
        if (step.what == 1) x = x.shuffled(step.seed, 1);
        if (step.what == 2) x = x.map([](const at::Tensor& block) { return block * 2 + 1; });
      }
      EXPECT_TRUE(at::equal(x.gather(), full)) << "round " << round;
    });
  }
}

}  // namespace
}  // namespace trireme
