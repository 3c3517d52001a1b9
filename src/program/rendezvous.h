// Who waits for whom: for each operation of a program the ranks that meet in it, and the part that each plays. Compiled into the program.
#pragma once

#include <vector>

#include "program/op_codes.h"
#include "tensor/placement.h"

namespace trireme {

class Model;
struct Program;

/// Part that a rank plays when it comes to an instruction.
enum class Part {
  alone,  ///< waits for nobody, nobody waits for it
  post,   ///< others may go on once it has ended
  take,   ///< begins when all who post there have posted once more than it has taken
  join,   ///< begins together with all members, ends together with them
};

/// Ranks that meet. Those of different micro-batches and batches are different meetings, unless `by_micro_batch` or `by_batch`
/// is false: then the first post meets the first take, the second the second.
struct Channel {
  OpCode code = OpCode::send;   ///< of the instruction that posts or joins, with its index and direction
  int index = -1;
  bool adjoint = false;
  std::vector<int> members;     ///< ranks that post or join
  std::vector<int> receivers;   ///< ranks that take; none for joins
  bool by_micro_batch = true;
  bool by_batch = true;
  bool must_be_taken = true;    ///< what is posted; else it may be left over
};

struct Role {
  Part part = Part::alone;
  int channel = -1;
  int index = -1;  ///< place of the rank in the channel's members (post, join) or receivers (take)
};

/// The ranks of one operation (an op code with its index and direction) and their roles.
struct Rendezvous {
  std::vector<int> posters, takers;  ///< ranks; those that join are posters
  std::vector<Role> posts, takes;    ///< theirs, in the same order
};

/// All optimizer steps of a bucket, by all its holders, for the batch of `before` batches ago.
struct NeededUpdate {
  int bucket;
  int before;
};

/// A distinct (code, index, adjoint) of an instruction list: its instructions differ only in the micro-batch, and meet the same ranks.
struct Site {
  int first = 0;         ///< position in the list of its first instruction
  int rendezvous = -1;   ///< index into Program::rendezvous; -1: meets nobody
  bool takes = false;
  std::vector<NeededUpdate> needs;  ///< besides its meeting; only shared replicas wait for each other's updates
};

struct ListSites {
  std::vector<Site> sites;
  std::vector<int> of;   ///< by position in the list: index into `sites`
};

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

// Rules of the table of op codes: each writes the channels and roles of one operation.

/// The groups of the axes over which layers of the segment talk.
void meet_in_talking_layers(RendezvousWriter& writer, const Instruction& instruction);
/// A group per mesh, or per line of the mesh where only one axis changes; nobody where every worker has already what it needs (a slice).
void meet_along_exchanged_axes(RendezvousWriter& writer, const Instruction& instruction);
/// A receiver takes from the workers that hold a part of its region. Where both layouts shard an axis alike, and where the source is
/// replicated, that is one index of the axis, else all of it: never too few, and exact but for shards that are cut differently on both
/// sides. Messages without elements, to receivers whose share is empty, are not counted: from whom they come depends on the batch.
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
