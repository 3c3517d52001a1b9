#include "program/op_codes.h"

#include <array>
#include <cstddef>

#include "program/rendezvous_rules.h"

namespace trireme {
namespace {

using enum Resource;

constexpr std::array kDescriptions{
    OpCodeDescription{.code = OpCode::load_batch, .name = "load batch", .operand = Operand::stage, .resource = device,
                      .event = EventKind::load, .memory = MemoryEffect::load_inputs},
    OpCodeDescription{.code = OpCode::forward, .name = "forward", .operand = Operand::segment, .resource = device,
                      .event = EventKind::forward, .pass = SegmentPass::forward, .weights = WeightUse::read,
                      .memory = MemoryEffect::keep_activations, .meets = meet_in_communicating_layers, .drawing = {"forward", "", 1}},
    OpCodeDescription{.code = OpCode::recompute, .name = "recompute", .operand = Operand::segment, .resource = device,
                      .event = EventKind::recompute, .pass = SegmentPass::forward, .weights = WeightUse::read_again,
                      .memory = MemoryEffect::restore_activations, .meets = meet_in_communicating_layers, .drawing = {"recompute", "r", 1}},
    OpCodeDescription{.code = OpCode::backward, .name = "backward", .operand = Operand::segment, .resource = device,
                      .event = EventKind::backward, .pass = SegmentPass::backward, .weights = WeightUse::add_gradients,
                      .memory = MemoryEffect::free_activations, .meets = meet_in_communicating_layers, .drawing = {"backward", "b", 2}},
    OpCodeDescription{.code = OpCode::backward_input, .name = "backward of inputs", .operand = Operand::segment, .resource = device,
                      .event = EventKind::backward, .pass = SegmentPass::backward_input, .weights = WeightUse::add_gradients,
                      .memory = MemoryEffect::free_activations, .meets = meet_in_communicating_layers, .drawing = {"backward_input", "b", 1}},
    OpCodeDescription{.code = OpCode::backward_weight, .name = "backward of weights", .operand = Operand::segment, .resource = device,
                      .event = EventKind::backward, .pass = SegmentPass::backward_weight, .weights = WeightUse::add_gradients,
                      .memory = MemoryEffect::free_deferred, .drawing = {"backward_weight", "w", 1}},
    OpCodeDescription{.code = OpCode::redistribute, .name = "redistribute", .operand = Operand::move, .resource = network,
                      .event = EventKind::redistribute, .role = MoveRole::exchange, .memory = MemoryEffect::move_value,
                      .meets = meet_along_exchanged_axes},
    OpCodeDescription{.code = OpCode::send, .name = "send", .operand = Operand::move, .resource = network, .event = EventKind::send,
                      .lane = Lane::mail, .role = MoveRole::send, .memory = MemoryEffect::move_value, .meets = post_to_receivers},
    OpCodeDescription{.code = OpCode::receive, .name = "receive", .operand = Operand::move, .resource = network,
                      .event = EventKind::receive, .role = MoveRole::receive, .memory = MemoryEffect::move_value,
                      .takes = Taking{.from = OpCode::send}},
    OpCodeDescription{.code = OpCode::prefetch_weights, .name = "prefetch weights", .operand = Operand::bucket, .resource = network,
                      .event = EventKind::gather, .lane = Lane::exchange, .weights = WeightUse::give_slice,
                      .meets = post_slice_to_holders},
    OpCodeDescription{.code = OpCode::gather_weights, .name = "gather weights", .operand = Operand::bucket, .resource = network,
                      .event = EventKind::gather, .weights = WeightUse::gather_slices, .memory = MemoryEffect::gather_weights,
                      .takes = Taking{.from = OpCode::prefetch_weights}},
    OpCodeDescription{.code = OpCode::release_weights, .name = "release weights", .operand = Operand::bucket, .event = EventKind::gather,
                      .memory = MemoryEffect::release_weights},
    OpCodeDescription{.code = OpCode::reduce_gradients, .name = "reduce gradients", .operand = Operand::bucket, .resource = network,
                      .event = EventKind::reduce, .lane = Lane::exchange, .weights = WeightUse::sum_gradients,
                      .memory = MemoryEffect::sum_gradients, .meets = sum_among_holders},
    OpCodeDescription{.code = OpCode::clip_gradients, .name = "clip gradients", .resource = network, .event = EventKind::reduce,
                      .weights = WeightUse::measure_sums, .meets = meet_all_ranks},
    OpCodeDescription{.code = OpCode::optimizer_step, .name = "optimizer step", .operand = Operand::bucket, .resource = both,
                      .event = EventKind::update, .weights = WeightUse::update, .memory = MemoryEffect::free_sum,
                      .meets = gather_slices_after_update,
                      .takes = Taking{.from = OpCode::reduce_gradients, .only_shared_replicas = true}},
    OpCodeDescription{.code = OpCode::synchronize_buffers, .name = "synchronize buffers", .operand = Operand::op, .resource = network,
                      .event = EventKind::redistribute, .meets = meet_along_data_axis},
    OpCodeDescription{.code = OpCode::agree, .name = "agree", .operand = Operand::end_of_step, .resource = network,
                      .event = EventKind::reduce, .meets = meet_all_ranks},
};

constexpr bool is_in_order() {
  for (size_t i = 0; i < kDescriptions.size(); ++i)
    if (size_t(kDescriptions[i].code) != i) return false;
  return true;
}
static_assert(is_in_order(), "one row per op code, in the order of the enumeration");

}  // namespace

const OpCodeDescription& description_of(OpCode code) { return kDescriptions.at(size_t(code)); }

}  // namespace trireme
