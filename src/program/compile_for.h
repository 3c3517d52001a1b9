// Compiles model + plan into a program for links that overlap a certain part of communication with computing.
#pragma once

#include "program/compile_options.h"
#include "program/program.h"
#include "trireme/cluster.h"
#include "trireme/plan.h"

namespace trireme {

/// As compile() (program/compile.h), which is for Overlap::sums. With Overlap::nothing a stage of a pipeline sends
/// gradients to the stage before, and then sums its own; otherwise each stage would wait for the sums of all stages
/// behind it. Where sums overlap computing they begin as early as possible.
Program compile_for(Overlap overlap, const Model& model, const Plan& plan, const CompileOptions& options);

}  // namespace trireme
