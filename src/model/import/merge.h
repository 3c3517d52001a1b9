// From tapes to one graph: merges the runs with different numbers of samples, then training and evaluation.
#pragma once

#include "model/import/graph.h"
#include "model/import/interpreter.h"
#include "model/import/script_file.h"

namespace trireme::torchscript {

/// Name of the operator that drops whole samples of a batch, or whole channels of samples (stochastic depth, Huang et
/// al., 2016). In TorchScript it is a product with a mask of Bernoulli numbers. Arguments: the value, the probability
/// of dropping, and the number of a sample's dims that the mask has (0: one number per sample).
constexpr const char* kDropSamples = "trireme::drop_samples";

/// Returns the graph of one mode, for any number of samples, from its runs with kProbeBatch and kOtherBatch samples.
/// The first samples of both runs are equal. In evaluation a value gets a batch dim only if the numbers of the first
/// samples are equal in both runs. Throws user errors that name the node: operators, sizes or numbers that change with
/// the number of samples but not in proportion to it.
Graph compare_batches(const ScriptFile& file, const Tape& probe, const Tape& other);

/// Returns one graph for training and evaluation, reduced to what the output depends on. The modes may differ only in
/// an operator's training flag, or in a dropout that exists in training only. Throws a user error at the first node
/// that differs otherwise or draws random numbers.
Graph merge_modes(const ScriptFile& file, Graph training, const Graph& evaluation);

/// Values whose first dim holds samples behind other positions, [positions * samples, features] as in PyTorch's
/// MultiheadAttention, become [positions, samples, features]. Throws a user error at an operator that would compute
/// something else with such values.
Graph unfold_inner_batches(const ScriptFile& file, Graph graph);

/// Returns the graph without operators that change nothing: copies, casts to the type that a value already has,
/// disabled dropout.
Graph without_idle_operators(const Graph& graph);

}  // namespace trireme::torchscript
