// Trireme: trains a neural network under any parallelism strategy and finds the best one. This header has all of the
// library's interface.
//
// Start at Workload (trireme/workload.h): a model, its data and how to train it. What you can add to Trireme from your
// own program: Layer, NamedModel, Schedule, UpdatePolicy, Dataset, BackendKind (docs/library.md).
#pragma once

#include "trireme/backend.h"
#include "trireme/cluster.h"
#include "trireme/communicator.h"
#include "trireme/config.h"
#include "trireme/dataset.h"
#include "trireme/error.h"
#include "trireme/hub.h"
#include "trireme/layer.h"
#include "trireme/layers.h"
#include "trireme/model.h"
#include "trireme/placement.h"
#include "trireme/plan.h"
#include "trireme/policy.h"
#include "trireme/program.h"
#include "trireme/schedule.h"
#include "trireme/workload.h"
#include "trireme/zoo.h"
