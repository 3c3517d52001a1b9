// For each operation of a program: the ranks that wait for each other in it, and their roles. Compiled into the
// program.
#pragma once

#include "program/program.h"
#include "trireme/placement.h"

namespace trireme {

/// Throws an internal error if the rank does not take part in the operation.
Role role_of(const Program& program, int rank, const Site& site);

/// Writes Program::channels, rendezvous and sites. The graph, buckets and lists must exist.
void write_rendezvous(Program& program, const Model& model);

/// The mesh axes along which values move between workers in a redistribution among the same workers.
struct ExchangedAxes {
  bool data = false, tensor = false;
};
/// Both axes, if the mesh is factorised differently and the value is not fully replicated.
ExchangedAxes exchanged_axes(const Layout& from, const Layout& to);

}  // namespace trireme
