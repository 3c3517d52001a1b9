#include "cost/declared_talk.h"

#include <map>

#include "base/error.h"
#include "model/layers/halo.h"

namespace trireme {
namespace {

constexpr double kDouble = 8;

double number_of(const CallTensor& tensor) { return double(tensor.count()); }
bool over_tensor(const CallShapes& call) { return call.option->talks_over_tensor_axis && call.tensor > 1; }

int64_t in_rows(const CallShapes& call, const char* attribute) {
  return std::get<std::vector<int64_t>>(call.layer->attributes().at(attribute)).at(0);
}

/// Images whose windows reach into the neighbours' rows: at an end of a worker's share the rows above, at the other those below.
LayerTalk borders(const CallShapes& call, const Window& window) {
  const Halo halo = halo_of(window);
  const Shape& images = call.inputs[0].shape;
  const double row = double(images[0] * images[1] * images[3] * call.inputs[0].element);
  const Talk talk{RedistributionKind::send_receive, double(halo.above + halo.below) * row};
  return {{talk}, call.wanted[0] ? std::vector{talk} : std::vector<Talk>{}};
}

LayerTalk conv2d(const CallShapes& call, int) {
  return borders(call, {.kernel = call.parameters[0].shape[2], .stride = in_rows(call, "stride"), .padding = in_rows(call, "padding"),
                        .dilation = in_rows(call, "dilation")});
}

LayerTalk pool2d(const CallShapes& call, int) {
  return borders(call, {.kernel = in_rows(call, "kernel"), .stride = in_rows(call, "stride"), .padding = in_rows(call, "padding")});
}

/// Mean, squared deviations and count, gathered from every worker; in backward two sums.
LayerTalk batch_norm(const CallShapes& call, int together) {
  const auto channels = double(call.inputs[0].shape[1]);
  LayerTalk talk;
  const auto among = [&](int members, bool over_data) {
    talk.forward.push_back({RedistributionKind::all_gather, members * kDouble * (2 * channels + 1), 1, over_data});
    talk.backward.push_back({RedistributionKind::all_reduce, kDouble * 2 * channels, 1, over_data});
  };
  if (over_tensor(call)) among(call.tensor, false);
  if (together > 1) among(together, true);
  return talk;
}

/// h before every step but the first, which is zero unless it lives on; with a projection h after every step. Backward brings the
/// gradients back, but for that of what came in.
LayerTalk lstm(const CallShapes& call, int) {
  constexpr size_t kProjection = 4;
  const auto steps = double(call.inputs[0].shape[1]), samples = double(call.samples);
  if (call.parameters.size() > kProjection) {
    const double h = samples * double(call.parameters[kProjection].shape[0] * call.compute);
    return {{{RedistributionKind::all_reduce, h, steps}}, {{RedistributionKind::all_reduce, h, steps - 1}}};
  }
  const double h = samples * double(call.parameters[1].shape[1] * call.tensor * call.compute);
  const double before = call.layer->kind() == "stateful_lstm" ? steps : steps - 1;
  return {{{RedistributionKind::all_gather, h, before}}, {{RedistributionKind::reduce_scatter, h, steps - 1}}};
}

/// Rows' maxima and sums where classes are divided, samples' sums where positions are.
LayerTalk softmax_cross_entropy(const CallShapes& call, int) {
  constexpr double kMaxima = 2, kSums = 5;
  const RedistributionKind sum = RedistributionKind::all_reduce;
  if (call.option->name == "sequence") return {{{sum, double(call.samples) * kSums * kDouble}}, {}};
  const double rows = number_of(call.inputs[0]) / double(call.inputs[0].shape.back()), number = double(call.master);
  LayerTalk talk;
  if (call.inputs[1].shape.size() == call.inputs[0].shape.size()) {  // shares of classes: which is the largest, and where
    talk.forward.push_back({sum, rows * number});
    talk.forward.push_back({sum, rows * kDouble});
  }
  talk.forward.push_back({sum, kMaxima * rows * number});
  talk.forward.push_back({sum, kSums * rows * number});
  return talk;
}

LayerTalk sampled_softmax(const CallShapes& call, int) {
  const double rows = number_of(call.inputs[0]) / double(call.parameters[0].shape[1]), number = double(call.master);
  return {{{RedistributionKind::all_reduce, 2 * rows * number}, {RedistributionKind::all_reduce, rows * number}}, {}};
}

LayerTalk pixel_cross_entropy(const CallShapes& call, int) {
  constexpr double kSums = 3;  // of each image, and of each class
  const auto classes = double(call.inputs[0].shape[1]);
  return {{{RedistributionKind::all_reduce, (double(call.samples) + classes) * kSums * kDouble}}, {}};
}

using Declaration = LayerTalk (*)(const CallShapes&, int together);

const std::map<std::string_view, Declaration>& declarations() {
  static const std::map<std::string_view, Declaration> all{
      {"conv2d", conv2d}, {"max_pool2d", pool2d}, {"avg_pool2d", pool2d}, {"batch_norm", batch_norm}, {"lstm", lstm},
      {"stateful_lstm", lstm}, {"softmax_cross_entropy", softmax_cross_entropy}, {"sampled_softmax", sampled_softmax},
      {"pixel_cross_entropy", pixel_cross_entropy}};
  return all;
}

}  // namespace

bool declares_talk(std::string_view kind) { return declarations().contains(kind); }

LayerTalk declared_talk(const CallShapes& call, int together) {
  if (call.samples == 0 || (!over_tensor(call) && together <= 1)) return {};
  const auto found = declarations().find(call.layer->kind());
  check_internal(found != declarations().end(), "a layer that talks within its calls declares what it says");
  return found->second(call, together);
}

}  // namespace trireme
