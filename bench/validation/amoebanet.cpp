#include "validation/amoebanet.h"

#include <fmt/format.h>

#include <limits>
#include <string>

#include "trireme/layers/add.h"
#include "trireme/layers/concat.h"
#include "trireme/layers/conv2d.h"
#include "trireme/layers/relu.h"
#include "validation/shape_layer.h"

namespace trireme::validation {
namespace {

constexpr int64_t kSide = 224, kColours = 3, kClasses = 1000;
constexpr double kNormFlops = 4, kPoolFlops = 9;  // per element

enum class Operation { none, conv1, conv3, conv7, pool };

/// One input of a sum: a hidden state and the operation on it.
struct Edge {
  int from;
  Operation operation;
};

struct Genotype {
  std::vector<Edge> edges;  ///< two for each hidden state after the first two
  std::vector<int> joined;
};

using enum Operation;

const Genotype& normal() {
  static const Genotype cell{{{1, conv1},
                              {1, pool},
                              {1, none},
                              {0, conv7},
                              {0, conv1},
                              {0, conv7},
                              {2, pool},
                              {2, none},
                              {1, pool},
                              {5, conv1}},
                             {0, 3, 4, 6}};
  return cell;
}

const Genotype& reduction() {
  static const Genotype cell{
      {{0, pool}, {0, pool}, {2, none}, {1, conv3}, {2, conv7}, {2, pool}, {3, none}, {1, pool}, {2, pool}, {3, conv1}},
      {4, 5, 6}};
  return cell;
}

class AmoebaBuilder {
 public:
  explicit AmoebaBuilder(int64_t filters) : channels_(filters / 4), b_("amoebanet-d") {
    const NodeId data = b_.input("data", {kColours, kSide, kSide});
    target_ = b_.input("target", {1});
    cells_.assign(2, 0);
    end_ = before_ = norm(conv(data, channels_, {3, 3}, {2, 2}));
    close_cell();
  }

  void cell(bool reduces) {
    if (reduces) channels_ *= 2;
    const Genotype& genotype = reduces ? reduction() : normal();
    const NodeId last = end_;
    std::vector<NodeId> states{unit(end_, channels_, {1, 1}, {1, 1})};
    if (halved_) states.push_back(factorized(before_));
    else states.push_back(b_.shape(before_)[0] == channels_ ? before_ : unit(before_, channels_, {1, 1}, {1, 1}));
    for (size_t i = 0; i < genotype.edges.size(); i += 2) {
      std::vector<NodeId> parts;
      for (size_t side = i; side < i + 2; ++side) {
        const Edge& edge = genotype.edges[side];
        parts.push_back(apply(edge.operation, states[size_t(edge.from)], reduces && edge.from < 2 ? 2 : 1));
      }
      states.push_back(note(b_.layer<Add>({parts[0], parts[1]}, name("sum"))));
    }
    std::vector<NodeId> joined;
    for (int state : genotype.joined) joined.push_back(states[size_t(state)]);
    end_ = note(b_.layer<Concat>(joined, name("concat")));
    before_ = last;
    halved_ = reduces;
    close_cell();
  }

  CellModel finish() {
    const Shape& images = b_.shape(end_);
    end_ = note(b_.layer<ShapeLayer>(
        {end_}, name("pool"),
        ShapeLayer::Facts{.kind = "pool", .output = {images[0]}, .flops = double(element_count(images))}));
    const int64_t width = b_.shape(end_)[0];
    end_ = note(b_.layer<ShapeLayer>({end_}, name("classes"),
                                     ShapeLayer::Facts{.kind = "classes",
                                                       .output = {kClasses},
                                                       .parameters = {{kClasses, width}, {kClasses}},
                                                       .flops = 2.0 * double(kClasses * width)}));
    const NodeId loss = note(b_.layer<ShapeLayer>({end_, target_}, "loss", ShapeLayer::Facts{.output = {}}));
    return {b_.finish(end_, loss), cells_};
  }

 private:
  NodeId note(NodeId node) {
    cells_.push_back(cell_);
    return node;
  }
  std::string name(const char* what) { return fmt::format("{}.{}.{}", cell_, number_++, what); }
  void close_cell() { ++cell_; }

  NodeId conv(NodeId x, int64_t out, Size2d kernel, Size2d stride) {
    const Size2d padding{kernel.height / 2, kernel.width / 2};
    return note(b_.layer<Conv2d>(
        {x}, name("conv"),
        Conv2dOptions{
            .in = b_.shape(x)[0], .out = out, .kernel = kernel, .stride = stride, .padding = padding, .bias = false}));
  }
  NodeId norm(NodeId x) {
    ShapeLayer::Facts facts = elementwise("norm", b_.shape(x), kNormFlops);
    facts.parameters = {{facts.output[0]}, {facts.output[0]}};
    return note(b_.layer<ShapeLayer>({x}, name("norm"), std::move(facts)));
  }
  /// ReLU, convolution, norm.
  NodeId unit(NodeId x, int64_t out, Size2d kernel, Size2d stride) {
    return norm(conv(note(b_.layer<Relu>({x}, name("relu"))), out, kernel, stride));
  }
  /// Two convolutions with half the channels each, on every second pixel.
  NodeId factorized(NodeId x) {
    const NodeId relu = note(b_.layer<Relu>({x}, name("relu")));
    const NodeId one = conv(relu, channels_ / 2, {1, 1}, {2, 2}), other = conv(relu, channels_ / 2, {1, 1}, {2, 2});
    return norm(note(b_.layer<Concat>({one, other}, name("concat"))));
  }
  NodeId pooled(NodeId x, int64_t stride) {
    const Shape& shape = b_.shape(x);
    return note(b_.layer<ShapeLayer>(
        {x}, name("pool"), elementwise("pool", {shape[0], shape[1] / stride, shape[2] / stride}, kPoolFlops)));
  }
  NodeId apply(Operation operation, NodeId x, int64_t stride) {
    const int64_t quarter = channels_ / 4;
    switch (operation) {
      case none: return stride == 1 ? x : factorized(x);
      case Operation::pool: return pooled(x, stride);
      case conv1: return unit(x, channels_, {1, 1}, {stride, stride});
      case conv3:
        return unit(unit(unit(x, quarter, {1, 1}, {1, 1}), quarter, {3, 3}, {stride, stride}), channels_, {1, 1},
                    {1, 1});
      case conv7:
        return unit(
            unit(unit(unit(x, quarter, {1, 1}, {1, 1}), quarter, {1, 7}, {1, stride}), quarter, {7, 1}, {stride, 1}),
            channels_, {1, 1}, {1, 1});
    }
    return x;
  }

  int64_t channels_;
  ModelBuilder b_;
  NodeId target_, end_, before_;  // outputs of the last two cells
  bool halved_ = false;           // the last cell halved the image
  std::vector<int> cells_;        // by node
  int cell_ = 0, number_ = 0;
};

}  // namespace

CellModel amoebanet(int layers, int64_t filters) {
  AmoebaBuilder net(filters);
  constexpr int kParts = 3;
  net.cell(true);
  net.cell(true);
  for (int part = 0; part < kParts; ++part) {
    if (part > 0) net.cell(true);
    for (int i = 0; i < layers / kParts; ++i) net.cell(false);
  }
  return net.finish();
}

std::vector<int> even_stages(const CellModel& net, int stages) {
  const auto cells = size_t(net.cells.back() + 1);
  std::vector<double> upto(cells + 1, 0);  // upto[i]: FLOPs of the first i cells
  for (NodeId id = net.model.input_count(); id < NodeId(net.model.nodes().size()); ++id)
    upto[size_t(net.cells[size_t(id)]) + 1] += net.model.node(id).layer->forward_flops(net.model.input_shapes(id));
  for (size_t i = 1; i <= cells; ++i) upto[i] += upto[i - 1];
  // The sum is fixed, so the least sum of squares gives the least variance.
  std::vector<std::vector<double>> best(size_t(stages) + 1,
                                        std::vector<double>(cells + 1, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<size_t>> from(size_t(stages) + 1, std::vector<size_t>(cells + 1, 0));
  best[0][0] = 0;
  for (size_t stage = 1; stage <= size_t(stages); ++stage)
    for (size_t end = stage; end <= cells; ++end)
      for (size_t begin = stage - 1; begin < end; ++begin) {
        const double flops = upto[end] - upto[begin], squares = best[stage - 1][begin] + flops * flops;
        if (squares >= best[stage][end]) continue;
        best[stage][end] = squares;
        from[stage][end] = begin;
      }
  std::vector<int> stage_of_cell(cells, 0);
  for (size_t stage = size_t(stages), end = cells; stage > 0; end = from[stage][end], --stage)
    for (size_t cell = from[stage][end]; cell < end; ++cell) stage_of_cell[cell] = int(stage) - 1;
  std::vector<int> result;
  for (int cell : net.cells) result.push_back(stage_of_cell[size_t(cell)]);
  return result;
}

}  // namespace trireme::validation
