// Rules by which op codes meet others: each writes the channels and roles of one operation (rendezvous.cpp).
#pragma once

namespace trireme {

struct Instruction;
class RendezvousWriter;

/// The groups of the axes over which layers of the segment communicate.
void meet_in_communicating_layers(RendezvousWriter& writer, const Instruction& instruction);
/// A group per mesh, or per line of the mesh where only one axis changes; nobody where every worker has already what it
/// needs (a slice).
void meet_along_exchanged_axes(RendezvousWriter& writer, const Instruction& instruction);
/// A receiver takes from the workers that hold a part of its region. Where both layouts shard an axis alike, and where
/// the source is replicated, that is one index of the axis, else all of it: never too few, and exact but for shards
/// that are cut differently on both sides. Messages without elements, to receivers whose share is empty, are not
/// counted: from whom they come depends on the batch.
void post_to_receivers(RendezvousWriter& writer, const Instruction& instruction);
/// The n-th gather takes every holder's n-th prefetch.
void post_slice_to_holders(RendezvousWriter& writer, const Instruction& instruction);
/// Shared replicas post per bucket what an optimizer step takes; of private ones all holders join.
void sum_among_holders(RendezvousWriter& writer, const Instruction& instruction);
/// Where the holders gather each other's slices they join.
void gather_slices_after_update(RendezvousWriter& writer, const Instruction& instruction);
void meet_all_ranks(RendezvousWriter& writer, const Instruction& instruction);
void meet_along_data_axis(RendezvousWriter& writer, const Instruction& instruction);

}  // namespace trireme
