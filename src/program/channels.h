// The ranks that take part in a program's operations, and their roles.
#pragma once

#include <vector>

#include "program/op_codes.h"

namespace trireme {

/// The role of a rank in an instruction.
enum class Part {
  alone,  ///< does not wait, and no rank waits for it
  post,   ///< other ranks may continue after it has ended
  take,   ///< starts when each member has posted once more than this rank has taken
  join,   ///< starts and ends together with all members
};

/// The ranks of one rendezvous. Different micro-batches and different batches are separate rendezvous, unless
/// `by_micro_batch` or `by_batch` is false: then the first post matches the first take, the second the second.
struct Channel {
  OpCode code = OpCode::send;  ///< of the instruction that posts or joins, with its index and direction
  int index = -1;
  bool adjoint = false;
  std::vector<int> members;    ///< ranks that post or join
  std::vector<int> receivers;  ///< ranks that take; empty for joins
  bool by_micro_batch = true;
  bool by_batch = true;
  bool must_be_taken = true;  ///< false: a post may be left untaken
};

struct Role {
  Part part = Part::alone;
  int channel = -1;
  int index = -1;  ///< index of the rank in the channel's members (post, join) or receivers (take)
};

/// The ranks of one operation (an op code with its index and direction) and their roles.
struct Rendezvous {
  std::vector<int> posters, takers;  ///< ranks; those that join are posters
  std::vector<Role> posts, takes;    ///< of the posters and takers, in the same order
};

/// A condition for which an instruction waits: all holders of `bucket` have made its optimizer step of the batch
/// `before` batches ago.
struct NeededUpdate {
  int bucket;
  int before;
};

/// A distinct (code, index, adjoint) of an instruction list. Its instructions differ only in the micro-batch and have a
/// rendezvous with the same ranks.
struct Site {
  int first = 0;        ///< position in the list of its first instruction
  int rendezvous = -1;  ///< index into Program::rendezvous; -1: none
  bool takes = false;
  std::vector<NeededUpdate> needs;  ///< in addition to the rendezvous; only shared replicas wait for each other's
                                    ///< updates
};

struct ListSites {
  std::vector<Site> sites;
  std::vector<int> of;  ///< by position in the list: index into `sites`
};

}  // namespace trireme
