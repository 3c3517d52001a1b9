// Every pair of placements on both axes, on meshes of 1 to 8 workers with equal and unequal shares. Values are compared
// with the full tensor; gradients of a weighted sum of the result, by finite differences, with the redistribution
// between the gradients' layouts. The test computes regions itself. Values are small integers in double, so sums are
// exact.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "support/ranks.h"
#include "tensor/redistribute.h"
#include "trireme/communicator.h"

namespace trireme {
namespace {

constexpr int kWorld = 8;
constexpr int kDrawsPerPair = 4;
constexpr int kElementsPerCase = 3;  // elements per case with a derivative
constexpr double kStep = 0.5;
constexpr double kTolerance = 1e-9;
constexpr int64_t kLargestValue = 9;

using Kind = Placement::Kind;
using Index = std::array<int, 2>;  // on the data and the tensor axis

Index index_of(const Mesh& mesh, size_t position) { return {int(position) / mesh.tensor, int(position) % mesh.tensor}; }

/// Part `index` of `length`: equal parts, larger ones first, or by shares with rounded cumulative ends.
Range part_of(int64_t length, int parts, int index, const std::vector<double>& shares) {
  if (!shares.empty()) {
    const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
    const auto end = [&](int i) {
      return int64_t(std::llround(double(length) * std::accumulate(shares.begin(), shares.begin() + i, 0.0) / total));
    };
    return {end(index), end(index + 1)};
  }
  Range part{0, 0};
  for (int i = 0; i <= index; ++i) part = {part.end, part.end + length / parts + (i < length % parts ? 1 : 0)};
  return part;
}

at::Tensor region(at::Tensor full, const Layout& layout, size_t position) {
  const Index at = index_of(layout.mesh, position);
  auto cut = [&](const Placement& placement, int parts, int index, const std::vector<double>& shares) {
    if (!placement.is_shard()) return;
    const Range part = part_of(full.size(placement.dim), parts, index, shares);
    full = full.narrow(placement.dim, part.begin, part.size());
  };
  cut(layout.data, layout.mesh.data, at[0], layout.mesh.shares);
  cut(layout.tensor, layout.mesh.tensor, at[1], {});
  return full;
}

/// True for all but the first of the workers that hold the same because of a replicated axis.
bool is_copy(const Layout& layout, size_t position) {
  const Index at = index_of(layout.mesh, position);
  return (layout.data.is_replicate() && at[0] > 0) || (layout.tensor.is_replicate() && at[1] > 0);
}

class Draw {
 public:
  explicit Draw(uint32_t seed) : generator_(seed) {}
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(generator_); }

  Mesh mesh() {
    std::vector<int> workers(kWorld);
    std::iota(workers.begin(), workers.end(), 0);
    std::shuffle(workers.begin(), workers.end(), generator_);
    workers.resize(size_t(1 + below(kWorld)));
    if (below(2)) std::sort(workers.begin(), workers.end());
    return factorised(workers);
  }

  /// In half of the draws the same mesh; else the same workers arranged otherwise, or another mesh.
  Mesh other(const Mesh& from) {
    switch (below(4)) {
      case 0:
      case 1: return from;
      case 2: return factorised(from.workers);
      default: return mesh();
    }
  }

  Layout layout(const Mesh& mesh, Kind data, Kind tensor, int dims) {
    const int first = below(dims);
    const int second =
        data == Kind::shard && tensor == Kind::shard ? (first + 1 + below(dims - 1)) % dims : below(dims);
    return {mesh, placement(data, first), placement(tensor, second)};
  }

 private:
  static Placement placement(Kind kind, int dim) {
    return kind == Kind::shard ? Placement::shard(dim) : Placement{kind, 0};
  }

  Mesh factorised(const std::vector<int>& workers) {
    const int n = int(workers.size());
    Mesh mesh{workers, 1 + below(n), 1};
    while (n % mesh.data != 0) --mesh.data;
    mesh.tensor = n / mesh.data;
    static constexpr double kShares[] = {0.5, 1, 2, 5};
    if (mesh.data > 1 && below(3) == 0)
      for (int d = 0; d < mesh.data; ++d) mesh.shares.push_back(kShares[below(std::size(kShares))]);
    return mesh;
  }

  std::mt19937 generator_;
};

/// Draws a tensor for each index on the axes that vary; workers with the same index hold equal values.
std::vector<at::Tensor> draw_locals(const Layout& layout, const Shape& shape, bool data_varies, bool tensor_varies,
                                    at::Tensor* sum) {
  std::map<Index, at::Tensor> drawn;
  std::vector<at::Tensor> locals;
  for (size_t w = 0; w < layout.mesh.workers.size(); ++w) {
    const Index at = index_of(layout.mesh, w);
    at::Tensor& full = drawn[{data_varies ? at[0] : 0, tensor_varies ? at[1] : 0}];
    if (!full.defined()) {
      full = at::randint(-kLargestValue, kLargestValue + 1, shape, at::kDouble);
      if (sum) *sum = sum->defined() ? *sum + full : full;
    }
    locals.push_back(region(full, layout, w).clone());
  }
  return locals;
}

/// The compiler's layout of gradients. Of a sharded value: sharded alike. Of a Partial value: whole. Of a replicated
/// value: at the consumer Partial, if each worker used it in another way; at the producer whole.
Layout gradient_of(Layout layout, bool data_partial, bool tensor_partial) {
  if (!layout.data.is_shard())
    layout.data = layout.data.is_replicate() && data_partial ? Placement::partial() : Placement::replicate();
  if (!layout.tensor.is_shard())
    layout.tensor = layout.tensor.is_replicate() && tensor_partial ? Placement::partial() : Placement::replicate();
  return layout;
}

struct Case {
  Shape shape;
  Layout from, to, gradient_from, gradient_to;  // gradient_from: at the consumer
  at::Tensor full;
  std::vector<at::Tensor> locals, weights;

  std::string text() const {
    return to_string(from) + " -> " + to_string(to) + " of " + to_string(shape) + ", gradient " +
           to_string(gradient_from);
  }
};

Case draw_case(Draw& draw, const std::array<Kind, 4>& kinds) {
  Case c;
  const bool two_shards =
      (kinds[0] == Kind::shard && kinds[1] == Kind::shard) || (kinds[2] == Kind::shard && kinds[3] == Kind::shard);
  const int dims = two_shards ? 2 + draw.below(3) : 1 + draw.below(4);
  for (int d = 0; d < dims; ++d) c.shape.push_back(draw.below(20) == 0 ? 0 : 1 + draw.below(9));
  const Mesh mesh = draw.mesh();
  c.from = draw.layout(mesh, kinds[0], kinds[1], dims);
  c.to = draw.layout(draw.other(mesh), kinds[2], kinds[3], dims);
  c.gradient_from = gradient_of(c.to, draw.below(2), draw.below(2));
  c.gradient_to = gradient_of(c.from, false, false);
  c.locals = draw_locals(c.from, c.shape, c.from.data.is_partial(), c.from.tensor.is_partial(), &c.full);
  c.weights = draw_locals(c.gradient_from, c.shape, !c.gradient_from.data.is_replicate(),
                          !c.gradient_from.tensor.is_replicate(), nullptr);
  return c;
}

struct Job {
  Layout from, to;
  Shape shape;
  std::vector<at::Tensor> locals, results;  // by position in the mesh
};

void run(std::vector<Job>& jobs) {
  for (Job& job : jobs) job.results.resize(job.to.mesh.workers.size());
  test_support::run_ranks(kWorld, [&](Communicator& world) {
    Redistributor redistributor(world, world.rank());
    for (size_t i = 0; i < jobs.size(); ++i) {
      Job& job = jobs[i];
      const int from = job.from.mesh.index_of(world.rank()), to = job.to.mesh.index_of(world.rank());
      const at::Tensor local = from < 0 ? at::Tensor() : job.locals[size_t(from)];
      const at::Tensor result = redistributor.run(local, job.from, job.to, job.shape, int64_t(i));
      ASSERT_EQ(result.defined(), to >= 0);
      if (to >= 0) job.results[size_t(to)] = result;
    }
  });
}

void expect_value(const Case& c, const std::vector<at::Tensor>& results) {
  at::Tensor sum = at::zeros(c.shape, at::kDouble);
  for (size_t w = 0; w < results.size(); ++w) {
    at::Tensor place = region(sum, c.to, w);
    ASSERT_EQ(results[w].sizes(), place.sizes());
    if (!is_copy(c.to, w)) place += results[w];
  }
  EXPECT_TRUE(at::equal(sum, c.full));
  if (c.to.data.is_partial() || c.to.tensor.is_partial()) return;
  for (size_t w = 0; w < results.size(); ++w)
    EXPECT_TRUE(at::equal(results[w], region(c.full, c.to, w))) << "position " << w;
}

/// Sum of weights * result over all consumers, by the gradient's layout.
double weighted_sum(const Case& c, const std::vector<at::Tensor>& results) {
  double sum = 0;
  for (size_t w = 0; w < results.size(); ++w) {
    const Index at = index_of(c.to.mesh, w);
    const bool seen_once = (c.to.data.is_replicate() && c.gradient_from.data.is_replicate() && at[0] > 0) ||
                           (c.to.tensor.is_replicate() && c.gradient_from.tensor.is_replicate() && at[1] > 0);
    if (!seen_once) sum += (c.weights[w] * results[w]).sum().item<double>();
  }
  return sum;
}

/// The element's positions in all copies.
std::vector<size_t> copies_of(const Layout& layout, size_t position) {
  const Index at = index_of(layout.mesh, position);
  std::vector<size_t> copies;
  for (size_t w = 0; w < layout.mesh.workers.size(); ++w) {
    const Index other = index_of(layout.mesh, w);
    if ((layout.data.is_replicate() || other[0] == at[0]) && (layout.tensor.is_replicate() || other[1] == at[1]))
      copies.push_back(w);
  }
  return copies;
}

/// One element of the source and the two runs in which it differs.
struct Derivative {
  size_t position = 0;
  int64_t element = 0;
  size_t raised = 0, lowered = 0;  // indices of jobs
};

Job moved(const Case& c, const Derivative& d, double by) {
  Job job{c.from, c.to, c.shape, {}, {}};
  for (const at::Tensor& local : c.locals) job.locals.push_back(local.clone());
  for (size_t copy : copies_of(c.from, d.position)) job.locals[copy].view(-1)[d.element] += by;
  return job;
}

std::vector<Derivative> add_derivatives(const Case& c, Draw& draw, std::vector<Job>& jobs) {
  std::vector<Derivative> derivatives;
  for (int i = 0; i < kElementsPerCase; ++i) {
    Derivative d{size_t(draw.below(int(c.locals.size())))};
    const int64_t elements = c.locals[d.position].numel();
    if (elements == 0) continue;
    d.element = draw.below(int(elements));
    d.raised = jobs.size();
    jobs.push_back(moved(c, d, kStep));
    d.lowered = jobs.size();
    jobs.push_back(moved(c, d, -kStep));
    derivatives.push_back(d);
  }
  return derivatives;
}

TEST(RedistributeGradient, IsTheMoveBetweenTheGradientsLayouts) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Draw draw(seed);
  at::manual_seed(seed);
  const std::vector<Kind> kinds{Kind::replicate, Kind::shard, Kind::partial};
  std::set<int> sizes;
  int checked = 0, unequal = 0, apart = 0;
  for (Kind data : kinds)
    for (Kind tensor : kinds) {
      std::vector<Case> cases;
      for (Kind to_data : kinds)
        for (Kind to_tensor : kinds)
          for (int i = 0; i < kDrawsPerPair; ++i) cases.push_back(draw_case(draw, {data, tensor, to_data, to_tensor}));
      std::vector<Job> jobs;  // two of each case, then those with a changed element
      for (const Case& c : cases) {
        jobs.push_back({c.from, c.to, c.shape, c.locals, {}});
        jobs.push_back({c.gradient_from, c.gradient_to, c.shape, c.weights, {}});
      }
      std::vector<std::vector<Derivative>> derivatives;
      for (const Case& c : cases) derivatives.push_back(add_derivatives(c, draw, jobs));
      run(jobs);
      if (HasFailure()) return;
      for (size_t i = 0; i < cases.size(); ++i) {
        const Case& c = cases[i];
        SCOPED_TRACE(c.text());
        sizes.insert(c.from.mesh.size());
        unequal += !c.from.mesh.shares.empty() || !c.to.mesh.shares.empty();
        apart += classify(c.from, c.to) == RedistributionKind::send_receive;
        expect_value(c, jobs[2 * i].results);
        for (const Derivative& d : derivatives[i]) {
          const double expected =
              (weighted_sum(c, jobs[d.raised].results) - weighted_sum(c, jobs[d.lowered].results)) / (2 * kStep);
          for (size_t copy : copies_of(c.from, d.position)) {
            const double given = jobs[2 * i + 1].results[copy].reshape(-1)[d.element].item<double>();
            EXPECT_NEAR(given, expected, kTolerance) << "position " << copy << ", element " << d.element;
          }
          ++checked;
        }
      }
    }
  EXPECT_EQ(sizes.size(), size_t(kWorld)) << "meshes of all sizes";
  EXPECT_GT(checked, 400);
  EXPECT_GT(unequal, 30);
  EXPECT_GT(apart, 30);
}

}  // namespace
}  // namespace trireme
