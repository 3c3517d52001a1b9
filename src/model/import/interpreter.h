// Runs a TorchScript module node by node, in one mode and with one number of samples, and writes down which operators
// it applied to data and parameters. Whatever depends on neither is simply computed: attributes, sizes, loops,
// conditions, masks, indices.
//
// Real tensors flow through the run, and real lists, dicts and objects, so aliasing is TorchScript's own; a table says
// which value a tensor is. An operator that works in place is written down as the one that does not, and its tensor is
// another value from then on; PyTorch's version counters tell when a view of such a tensor is read afterwards, which is
// refused.
#pragma once

#include "model/import/tape.h"

namespace trireme::torchscript {

/// User errors that name the node and its line: control flow or sizes that depend on the data, module state that
/// changes from step to step, a view that is read after its tensor was changed in place, operators without a schema or
/// a functional form, whatever the module itself raises.
Tape interpret(const ScriptFile& file, Paths& paths, bool training, const at::Tensor& data);

}  // namespace trireme::torchscript
