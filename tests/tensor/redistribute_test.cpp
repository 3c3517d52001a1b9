// Compares redistributions between random layouts with the full tensor. Values are small integers in double, so sums
// are exact.
#include "tensor/redistribute.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "comm/formulas.h"
#include "support/ranks.h"
#include "tensor/all_reduce_group.h"
#include "trireme/communicator.h"

namespace trireme {
namespace {

using test_support::run_ranks;
using Kind = RedistributionKind;

at::Tensor slice(const at::Tensor& full, const Box& box) {
  at::Tensor part = full;
  for (size_t d = 0; d < box.size(); ++d) part = part.narrow(d, box[d].begin, box[d].size());
  return part.clone();
}

/// The part of `full` that each worker of `layout` holds; Partial as random summands. Indexed by position in the mesh.
std::vector<at::Tensor> distribute(const at::Tensor& full, const Layout& layout) {
  const Mesh& mesh = layout.mesh;
  const int data_summands = layout.data.is_partial() ? mesh.data : 1;
  const int tensor_summands = layout.tensor.is_partial() ? mesh.tensor : 1;
  std::vector<at::Tensor> summands;
  at::Tensor rest = full.clone();
  for (int i = 1; i < data_summands * tensor_summands; ++i) {
    summands.push_back(at::randint(-9, 10, full.sizes(), full.options()));
    rest -= summands.back();
  }
  summands.push_back(rest);
  std::vector<at::Tensor> locals;
  for (const int worker : mesh.workers) {
    const int d = layout.data.is_partial() ? mesh.data_index(worker) : 0;
    const int t = layout.tensor.is_partial() ? mesh.tensor_index(worker) : 0;
    locals.push_back(slice(summands[d * tensor_summands + t], layout.box_of(worker, full.sizes().vec())));
  }
  return locals;
}

/// Makes the full tensor from the parts of all workers. Fails if copies differ.
at::Tensor assemble(const std::vector<at::Tensor>& locals, const Layout& layout, const Shape& shape) {
  const Mesh& mesh = layout.mesh;
  at::Tensor full = at::zeros(shape, at::kDouble);
  for (int pass = 0; pass < 2; ++pass) {
    for (const int worker : mesh.workers) {
      const int d = mesh.data_index(worker), t = mesh.tensor_index(worker);
      const bool replica = (layout.data.is_replicate() && d > 0) || (layout.tensor.is_replicate() && t > 0);
      const Box box = layout.box_of(worker, shape);
      const at::Tensor& local = locals[mesh.index_of(worker)];
      EXPECT_EQ(local.sizes(), at::IntArrayRef(shape_of(box)));
      if (pass == 0 && !replica) {
        at::Tensor region = full;
        for (size_t i = 0; i < box.size(); ++i) region = region.narrow(i, box[i].begin, box[i].size());
        region += local;
      }
      if (pass == 1 && !layout.data.is_partial() && !layout.tensor.is_partial()) {
        EXPECT_TRUE(local.equal(slice(full, box))) << "worker " << worker;
      }
    }
  }
  return full;
}

class Draw {
 public:
  explicit Draw(uint32_t seed) : generator_(seed) {}
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(generator_); }

  Layout layout(int world, int dims) {
    static const std::pair<int, int> kFactors[] = {{1, 1}, {2, 1}, {1, 2}, {3, 1}, {1, 3}, {2, 2}, {4, 1},
                                                   {1, 4}, {2, 3}, {3, 2}, {8, 1}, {1, 8}, {4, 2}, {2, 4}};
    Layout layout;
    do {
      std::tie(layout.mesh.data, layout.mesh.tensor) = kFactors[below(std::size(kFactors))];
    } while (layout.mesh.size() > world);
    std::vector<int> workers(world);
    std::iota(workers.begin(), workers.end(), 0);
    if (below(2)) std::shuffle(workers.begin(), workers.end(), generator_);
    workers.resize(layout.mesh.size());
    layout.mesh.workers = workers;
    do {
      layout.data = placement(dims);
      layout.tensor = placement(dims);
    } while (layout.data.is_shard() && layout.data == layout.tensor);
    return layout;
  }

 private:
  Placement placement(int dims) {
    const int kind = below(dims == 0 ? 2 : 4);
    return kind == 0 ? Placement::replicate() : kind == 1 ? Placement::partial() : Placement::shard(below(dims));
  }

  std::mt19937 generator_;
};

struct Move {
  Shape shape;
  Layout from, to;
  std::vector<at::Tensor> locals;   // in the layout `from`
  std::vector<at::Tensor> results;  // in the layout `to`, set by the run
};

/// Bytes that the communicator of `worker` counts for Redistributor::run: those of the transfers, or of the ring if it
/// uses all-reduce.
int64_t redistribution_bytes(int worker, const Move& move, int64_t bytes_per_element) {
  const std::vector<int> group = all_reduce_group(move.from, move.to, worker);
  if (group.empty()) return bytes_sent_by(worker, plan_transfers(move.from, move.to, move.shape), bytes_per_element);
  const auto rank = int(std::find(group.begin(), group.end(), worker) - group.begin());
  return all_reduce_bytes(element_count(shape_of(move.from.box_of(worker, move.shape))), bytes_per_element,
                          int(group.size()), rank);
}

/// Runs all moves one after the other and compares the counted bytes with the plan.
void run_moves(int world, std::vector<Move>& moves, bool with_all_reduce) {
  for (Move& move : moves) move.results.resize(move.to.mesh.size());
  run_ranks(world, [&](Communicator& c) {
    Redistributor redistributor(c, c.rank());
    for (size_t i = 0; i < moves.size(); ++i) {
      Move& move = moves[i];
      const int from_index = move.from.mesh.index_of(c.rank()), to_index = move.to.mesh.index_of(c.rank());
      const at::Tensor local = from_index < 0 ? at::Tensor() : move.locals[from_index];
      const int64_t before = c.count().bytes_sent;
      const at::Tensor result =
          with_all_reduce ? redistributor.run(local, move.from, move.to, move.shape, static_cast<int64_t>(i))
                          : redistribute(local, move.from, move.to, move.shape, c.rank(), c, static_cast<int64_t>(i));
      const int64_t expected = with_all_reduce ? redistribution_bytes(c.rank(), move, 8)
                               : move.from == move.to
                                   ? 0
                                   : bytes_sent_by(c.rank(), plan_transfers(move.from, move.to, move.shape), 8);
      EXPECT_EQ(c.count().bytes_sent - before, expected) << to_string(move.from) << " -> " << to_string(move.to);
      ASSERT_EQ(result.defined(), to_index >= 0);
      if (to_index >= 0) move.results[to_index] = result;
    }
  });
}

std::vector<Move> random_moves(uint32_t seed, int world, int count) {
  Draw draw(seed);
  at::manual_seed(seed);
  std::vector<Move> moves;
  for (int i = 0; i < count; ++i) {
    Move move;
    for (int d = draw.below(5); d > 0; --d) move.shape.push_back(draw.below(10));
    const int dims = static_cast<int>(move.shape.size());
    move.from = draw.layout(world, dims);
    move.to = draw.layout(world, dims);
    if (draw.below(2)) move.to.mesh = move.from.mesh;
    moves.push_back(std::move(move));
  }
  return moves;
}

class RandomMoves : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(WithAllReduce, RandomMoves, ::testing::Bool());

TEST_P(RandomMoves, KeepTheValue) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (const int world : {1, 2, 3, 5, 8}) {
    std::vector<Move> moves = random_moves(seed + world, world, 60);
    std::vector<at::Tensor> fulls;
    for (Move& move : moves) {
      fulls.push_back(at::randint(-9, 10, move.shape, at::kDouble));
      move.locals = distribute(fulls.back(), move.from);
    }
    run_moves(world, moves, GetParam());
    if (HasFailure()) return;
    for (size_t i = 0; i < moves.size(); ++i) {
      const Move& move = moves[i];
      EXPECT_TRUE(assemble(move.results, move.to, move.shape).equal(fulls[i]))
          << to_string(move.from) << " -> " << to_string(move.to) << " of " << to_string(move.shape);
    }
  }
}

/// The layout of a value's gradient: Replicate for a Partial value, Partial or Replicate for a Replicate value.
Layout gradient_of(Layout layout, bool replicate_stays) {
  for (Placement* placement : {&layout.data, &layout.tensor}) {
    if (placement->is_partial()) {
      *placement = Placement::replicate();
    } else if (placement->is_replicate() && !replicate_stays) {
      *placement = Placement::partial();
    }
  }
  return layout;
}

/// <value, gradient>, summed over all workers; of workers that hold both whole, only one counts.
double inner_product(const std::vector<at::Tensor>& values, const Layout& layout,
                     const std::vector<at::Tensor>& gradients, const Layout& gradient_layout) {
  double product = 0;
  for (const int worker : layout.mesh.workers) {
    const int d = layout.mesh.data_index(worker), t = layout.mesh.tensor_index(worker);
    const bool counted_already = (layout.data.is_replicate() && gradient_layout.data.is_replicate() && d > 0) ||
                                 (layout.tensor.is_replicate() && gradient_layout.tensor.is_replicate() && t > 0);
    if (counted_already) continue;
    const int i = layout.mesh.index_of(worker);
    product += values[i].mul(gradients[i]).sum().item<double>();
  }
  return product;
}

TEST_P(RandomMoves, HaveTheMoveBetweenTheGradientsLayoutsAsAdjoint) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  constexpr int kWorld = 8;
  std::vector<Move> forward = random_moves(seed, kWorld, 150), backward;
  Draw draw(seed + 1);
  for (Move& move : forward) {
    move.locals = distribute(at::randint(-9, 10, move.shape, at::kDouble), move.from);
    Move back{move.shape, gradient_of(move.to, draw.below(2)), gradient_of(move.from, draw.below(2)), {}, {}};
    back.locals = distribute(at::randint(-9, 10, move.shape, at::kDouble), back.from);
    backward.push_back(std::move(back));
  }
  run_moves(kWorld, forward, GetParam());
  run_moves(kWorld, backward, GetParam());
  if (HasFailure()) return;
  for (size_t i = 0; i < forward.size(); ++i) {
    const Move &there = forward[i], &back = backward[i];
    EXPECT_EQ(inner_product(there.results, there.to, back.locals, back.from),
              inner_product(there.locals, there.from, back.results, back.to))
        << to_string(there.from) << " -> " << to_string(there.to) << ", gradients " << to_string(back.from) << " -> "
        << to_string(back.to) << " of " << to_string(there.shape);
  }
}

const Mesh kFour{{0, 1, 2, 3}, 2, 2};
Layout on(const Mesh& mesh, Placement data, Placement tensor) { return {mesh, data, tensor}; }
const Placement R = Placement::replicate(), S0 = Placement::shard(0), S1 = Placement::shard(1),
                P = Placement::partial();

TEST(Classify, NamesTheStandardMoves) {
  EXPECT_EQ(classify(on(kFour, S0, R), on(kFour, S0, R)), Kind::none);
  EXPECT_EQ(classify(on(kFour, S0, P), on(kFour, S0, P)), Kind::none);
  EXPECT_EQ(classify(on(kFour, S0, R), on(kFour, S0, S1)), Kind::slice);
  EXPECT_EQ(classify(on(kFour, S0, S1), on(kFour, S0, R)), Kind::all_gather);
  EXPECT_EQ(classify(on(kFour, S0, P), on(kFour, S0, R)), Kind::all_reduce);
  EXPECT_EQ(classify(on(kFour, S0, P), on(kFour, S0, S1)), Kind::reduce_scatter);
  EXPECT_EQ(classify(on(kFour, R, S0), on(kFour, R, S1)), Kind::all_to_all);
  const Mesh wide{{0, 1, 2, 3}, 4, 1}, tall{{0, 1, 2, 3}, 1, 4};
  EXPECT_EQ(classify(on(wide, S0, R), on(kFour, S0, R)), Kind::all_gather);
  EXPECT_EQ(classify(on(kFour, S0, R), on(wide, S0, R)), Kind::slice);
  EXPECT_EQ(classify(on(wide, S0, R), on(tall, R, S1)), Kind::all_to_all);
  EXPECT_EQ(classify(on(wide, S0, R), on(tall, S0, R)), Kind::all_gather);
  EXPECT_EQ(classify(on(Mesh{{0, 1}, 2, 1}, S0, R), on(Mesh{{2, 3}, 2, 1}, S0, R)), Kind::send_receive);
  EXPECT_STREQ(name_of(Kind::send_receive), "send_receive");
}

/// On a large mesh the kind is that of the transfers, which this test looks at one by one.
TEST(Classify, NamesWhatTransfersDoOnALargeMesh) {
  Mesh mesh{std::vector<int>(12), 4, 3};
  std::iota(mesh.workers.begin(), mesh.workers.end(), 0);
  const Shape shape{144, 144, 144};
  const std::vector<Placement> placements{R, S0, S1, Placement::shard(2), P};
  const auto is_layout = [](const Placement& a, const Placement& b) { return !(a.is_shard() && a == b); };
  int moved = 0;
  for (const Placement& a : placements)
    for (const Placement& b : placements)
      for (const Placement& c : placements)
        for (const Placement& d : placements) {
          const bool makes_partial = (c.is_partial() && a != c) || (d.is_partial() && b != d);
          if (!is_layout(a, b) || !is_layout(c, d) || makes_partial) continue;
          const Layout from = on(mesh, a, b), to = on(mesh, c, d);
          bool moves = false, adds = false, same = true, keeps = true;
          for (const TensorTransfer& transfer : plan_transfers(from, to, shape)) {
            moves |= transfer.source != transfer.destination;
            adds |= transfer.add;
          }
          for (const int worker : mesh.workers) {
            const Box before = from.box_of(worker, shape), after = to.box_of(worker, shape);
            same &= before == after;
            keeps &= intersect(before, after) == before;
          }
          const Kind kind = !moves ? (same ? Kind::none : Kind::slice)
                            : adds ? (keeps ? Kind::all_reduce : Kind::reduce_scatter)
                                   : (keeps ? Kind::all_gather : Kind::all_to_all);
          EXPECT_EQ(classify(from, to), kind) << to_string(from) << " -> " << to_string(to);
          moved += moves;
        }
  EXPECT_GT(moved, 50);
}

TEST(PlanTransfers, SpreadReadersOverReplicas) {
  const Layout from = on(kFour, S0, R), to = on(Mesh{{4, 5, 6, 7}, 1, 4}, R, R);
  std::vector<int> served(8);
  for (const TensorTransfer& transfer : plan_transfers(from, to, {8})) ++served[transfer.source];
  EXPECT_EQ(served, (std::vector<int>{2, 2, 2, 2, 0, 0, 0, 0}));
}

TEST(Redistribute, ReturnsLocalItselfWhenNothingMoves) {
  run_ranks(4, [](Communicator& c) {
    const at::Tensor local = at::ones({3, 2});
    const Mesh wide{{0, 1, 2, 3}, 4, 1};
    EXPECT_TRUE(redistribute(local, on(kFour, R, P), on(kFour, R, P), {3, 2}, c.rank(), c, 0).is_same(local));
    EXPECT_TRUE(redistribute(local, on(kFour, R, R), on(wide, R, R), {3, 2}, c.rank(), c, 0).is_same(local));
    EXPECT_EQ(c.count().bytes_sent, 0);
  });
}

TEST(Redistribute, KeepsChannelsLast) {
  const at::Tensor full = at::arange(4 * 6 * 5 * 5, at::kFloat).reshape({4, 6, 5, 5});
  const Shape shape = full.sizes().vec();
  const Layout layouts[] = {on(kFour, S0, R), on(kFour, S0, S1), on(kFour, S0, P),
                            on(kFour, R, R),  on(kFour, R, S0),  on(Mesh{{4, 5}, 2, 1}, S0, R)};
  run_ranks(6, [&](Communicator& c) {
    Redistributor redistributor(c, c.rank());
    for (const Layout& from : layouts) {
      for (const Layout& to : layouts) {
        if (to.tensor.is_partial()) continue;
        at::Tensor local;
        if (from.mesh.index_of(c.rank()) >= 0)
          local = slice(full, from.box_of(c.rank(), shape)).contiguous(at::MemoryFormat::ChannelsLast);
        const at::Tensor result = redistributor.run(local, from, to, shape, 1);
        if (to.mesh.index_of(c.rank()) < 0) continue;
        EXPECT_TRUE(result.is_contiguous(at::MemoryFormat::ChannelsLast)) << to_string(from) << to_string(to);
        const double times = from.tensor.is_partial() ? 2 : 1;
        EXPECT_TRUE(result.equal(slice(full, to.box_of(c.rank(), shape)) * times)) << to_string(from) << to_string(to);
      }
    }
  });
}

TEST(Redistribute, WorkersWithoutSamplesHaveTheRightShapeAndDtype) {
  const Layout from = on(Mesh{{0, 1}, 2, 1}, S0, R), to = on(Mesh{{2, 3, 4}, 3, 1}, S0, R);
  run_ranks(5, [&](Communicator& c) {
    const at::Tensor local = c.rank() < 2 ? at::ones({1 - c.rank(), 7}, at::kLong) : at::Tensor();
    const at::Tensor result = redistribute(local, from, to, {1, 7}, c.rank(), c, 0);
    if (c.rank() < 2) return;
    EXPECT_TRUE(result.equal(at::ones({c.rank() == 2 ? 1 : 0, 7}, at::kLong)));
    EXPECT_EQ(result.scalar_type(), at::kLong);
  });
}

TEST(Redistribute, AddsBFloat16InFloat) {
  const Mesh mesh{{0, 1, 2, 3}, 1, 4};
  run_ranks(4, [&](Communicator& c) {
    const at::Tensor local = at::full({8}, c.rank() == 0 ? 256.0 : 1.0, at::kBFloat16);
    const at::Tensor result = redistribute(local, on(mesh, R, P), on(mesh, R, S0), {8}, c.rank(), c, 0);
    EXPECT_TRUE(result.equal(at::full({2}, 260.0, at::kBFloat16)));
    EXPECT_EQ(result.scalar_type(), at::kBFloat16);
  });
}

}  // namespace
}  // namespace trireme
