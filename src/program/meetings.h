// Who waits for whom: for each instruction of a rank, the others that it meets. A pure function of the program.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "program/program.h"

namespace trireme {

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
};

struct Role {
  Part part = Part::alone;
  int channel = -1;
  int index = -1;  ///< place of the rank in the channel's members (post, join) or receivers (take)
};

/// All optimizer steps of a bucket, by all its holders, for the batch of `before` batches ago.
struct NeededUpdate {
  BucketId bucket;
  int before;
};
/// Which of them an instruction waits for, besides its meeting. Only shared replicas wait for each other's (see walk()).
std::vector<NeededUpdate> updates_needed(const Program& program, const Instruction& instruction);

/// Meetings are found when first asked for and kept. The program and the model outlive it. Used by one thread.
///
/// - send, receive: a receiver takes from the workers that hold a part of its region. Where both layouts shard an axis alike, and
///   where the source is replicated, that is one index of the axis, else all of it: never too few, and exact but for shards that
///   are cut differently on both sides. Messages without elements, to receivers whose share is empty, are not counted: from whom
///   they come depends on the batch.
/// - redistribute: a group per mesh, or per line of the mesh where only one axis changes; nobody where every worker has already
///   what it needs (a slice).
/// - forward, recompute, backward and backward_input of layers that talk: the groups of the axes that they talk over.
/// - reduce_gradients, optimizer_step: shared replicas post and take per bucket; of private ones all holders join, in
///   optimizer_step where the holders gather each other's slices.
/// - prefetch_weights, gather_weights: the n-th gather takes every holder's n-th prefetch.
/// - clip_gradients, agree: all ranks. synchronize_buffers: the data group.
class Meetings {
 public:
  Meetings(const Program& program, const Model& model) : program_(program), model_(model) {}

  /// Errors (internal): an instruction on a rank that has no business there.
  Role role_of(int rank, const Instruction& instruction);
  const Channel& channel(int id) const { return channels_[size_t(id)]; }
  int channel_count() const { return int(channels_.size()); }

 private:
  /// The channels of one operation, and every rank's role in it.
  struct Exchange {
    std::vector<int> posters, takers;  // ranks
    std::vector<Role> posts, takes;    // theirs, in the same order
  };
  using Key = std::tuple<OpCode, int, bool>;

  const Exchange& exchange_of(const Instruction& instruction);
  Exchange build(const Instruction& instruction);
  Exchange mail(const Instruction& send);
  Exchange announcements(const Instruction& i, bool by_batch);
  Exchange joins(const Instruction& i, const std::vector<std::vector<int>>& groups, bool by_micro_batch = true);
  std::vector<std::vector<int>> talking_groups(SegmentId segment) const;

  const Program& program_;
  const Model& model_;
  std::vector<Channel> channels_;
  std::map<Key, Exchange> exchanges_;
};

/// Along which axes of a mesh values change worker in a redistribution among the same workers.
struct ExchangedAxes {
  bool data = false, tensor = false;
};
/// Both where the mesh is factorised differently and not everybody has everything.
ExchangedAxes exchanged_axes(const Layout& from, const Layout& to);

}  // namespace trireme
