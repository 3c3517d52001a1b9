// Runs a TorchScript module node by node, in one mode and with one number of samples, and records which operators it
// applies to data and parameters. Everything that depends on neither is evaluated at once: attributes, sizes, loops,
// conditions, masks, indices.
//
// Real tensors, lists, dicts and objects flow through the run, so aliasing is TorchScript's own. A table maps tensors
// to values. An in-place operator is recorded as its out-of-place variant, and its tensor is another value from then
// on. PyTorch's version counters show when a view of such a tensor is read later.
#pragma once

#include "model/import/tape.h"

namespace trireme::torchscript {

/// Throws user errors that name the node and its line: control flow or sizes that depend on the data; module state that
/// changes from step to step; an outdated view that is read after its tensor was changed in place; operators without a
/// schema or an out-of-place variant; exceptions that the module raises.
Tape interpret(const ScriptFile& file, Paths& paths, bool training, const at::Tensor& data);

}  // namespace trireme::torchscript
