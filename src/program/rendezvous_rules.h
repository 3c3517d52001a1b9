// The rendezvous rules of the op codes. Each rule writes the channels and roles of one operation (rendezvous.cpp).
#pragma once

namespace trireme {

struct Instruction;
class RendezvousWriter;

/// Joins the groups of the axes over which layers of the segment communicate.
void join_in_communicating_layers(RendezvousWriter& writer, const Instruction& instruction);
/// Joins one group per mesh, or per line of the mesh if only one axis changes. No rendezvous if each worker already has
/// what it needs (a slice).
void join_along_exchanged_axes(RendezvousWriter& writer, const Instruction& instruction);
/// A receiver takes from the workers that hold a part of its region. If both layouts shard an axis equally, or if the
/// source is replicated on it, that is one index of the axis; otherwise all indices. The result is never too small. It
/// is exact, except for shards with different boundaries on both sides. Messages without elements, to receivers with an
/// empty share, are not included: their senders depend on the batch.
void post_to_receivers(RendezvousWriter& writer, const Instruction& instruction);
/// The n-th gather takes the n-th prefetch of each holder.
void post_slice_to_holders(RendezvousWriter& writer, const Instruction& instruction);
/// Shared replicas: each contributor posts, and the optimizer step takes. Private replicas: all holders join.
void sum_among_holders(RendezvousWriter& writer, const Instruction& instruction);
/// Joins the holders if they gather each other's slices (zero1, zero2).
void gather_slices_after_update(RendezvousWriter& writer, const Instruction& instruction);
void join_all_ranks(RendezvousWriter& writer, const Instruction& instruction);
void join_along_data_axis(RendezvousWriter& writer, const Instruction& instruction);

}  // namespace trireme
