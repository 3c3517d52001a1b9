// Who waits for whom: for each operation of a program the ranks that meet in it, and the part that each plays. Compiled
// into the program.
#pragma once

#include "program/program.h"
#include "trireme/placement.h"

namespace trireme {

/// Errors (internal): a rank that has no business there.
Role role_of(const Program& program, int rank, const Site& site);

/// Writes Program::channels, rendezvous and sites. Graph, buckets and lists must be there.
void write_rendezvous(Program& program, const Model& model);

/// Along which axes of a mesh values change worker in a redistribution among the same workers.
struct ExchangedAxes {
  bool data = false, tensor = false;
};
/// Both where the mesh is factorised differently and not everybody has everything.
ExchangedAxes exchanged_axes(const Layout& from, const Layout& to);

}  // namespace trireme
