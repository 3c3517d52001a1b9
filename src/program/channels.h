// Ranks that meet in the operations of a program, and the part that each plays.
#pragma once

#include <vector>

#include "program/op_codes.h"

namespace trireme {

/// Part that a rank plays when it comes to an instruction.
enum class Part {
  alone,  ///< waits for nobody, nobody waits for it
  post,   ///< others may go on once it has ended
  take,   ///< begins when all who post there have posted once more than it has taken
  join,   ///< begins together with all members, ends together with them
};

/// Ranks that meet. Those of different micro-batches and batches are different meetings, unless `by_micro_batch` or
/// `by_batch` is false: then the first post meets the first take, the second the second.
struct Channel {
  OpCode code = OpCode::send;  ///< of the instruction that posts or joins, with its index and direction
  int index = -1;
  bool adjoint = false;
  std::vector<int> members;    ///< ranks that post or join
  std::vector<int> receivers;  ///< ranks that take; none for joins
  bool by_micro_batch = true;
  bool by_batch = true;
  bool must_be_taken = true;  ///< what is posted; else it may be left over
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

/// A distinct (code, index, adjoint) of an instruction list: its instructions differ only in the micro-batch, and meet
/// the same ranks.
struct Site {
  int first = 0;        ///< position in the list of its first instruction
  int rendezvous = -1;  ///< index into Program::rendezvous; -1: meets nobody
  bool takes = false;
  std::vector<NeededUpdate> needs;  ///< besides its meeting; only shared replicas wait for each other's updates
};

struct ListSites {
  std::vector<Site> sites;
  std::vector<int> of;  ///< by position in the list: index into `sites`
};

}  // namespace trireme
