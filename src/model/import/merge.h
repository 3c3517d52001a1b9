// From tapes to one graph: runs with different numbers of samples, then training and evaluation, are laid over each
// other.
#pragma once

#include "model/import/graph.h"
#include "model/import/interpreter.h"
#include "model/import/script_file.h"

namespace trireme::torchscript {

/// The operator that samples of a batch, or channels of samples, drop out as a whole (stochastic depth, Huang et al.,
/// 2016): written in TorchScript as a product with a mask of Bernoulli numbers. Arguments: the value, the chance to
/// drop, and how many dims of a sample the mask has (0: one number per sample).
constexpr const char* kDropSamples = "trireme::drop_samples";

/// The graph of one mode, for any number of samples, from its runs with kProbeBatch and kOtherBatch of them, of which
/// the first ones are the same. Values of evaluation get a batch dim only where the first samples' numbers are the same
/// in both. User errors name the node: operators, sizes or numbers that follow the number of samples other than in
/// proportion to it.
Graph compare_batches(const ScriptFile& file, const Tape& probe, const Tape& other);

/// One graph for training and evaluation, of what the output depends on. What differs must be an operator's training
/// flag, or a dropout that only one of them has. User error at the first node that differs otherwise, or that draws
/// random numbers.
Graph merge_modes(const ScriptFile& file, Graph training, const Graph& evaluation);

/// Values with samples folded into their first dim behind others, [positions * samples, features] as PyTorch's
/// MultiheadAttention has them, become [positions, samples, features]. User error at an operator that would not do the
/// same with these.
Graph unfold_inner_batches(const ScriptFile& file, Graph graph);

/// Without operators that change nothing: copies, casts to the type that a value has, dropout that is switched off.
Graph without_idle_operators(const Graph& graph);

}  // namespace trireme::torchscript
