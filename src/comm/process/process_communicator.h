// One rank's end of a group of processes: collectives made of frames and transfers between pairs of ranks.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/group_member.h"
#include "comm/process/process_world.h"

namespace trireme {

/// Each block is sent directly from the rank that has it to the rank that needs it, all pairs at once, over the
/// connections that the world has anyway. The bytes are those of the ring (comm/formulas.h), in two rounds instead of
/// 2(n-1). The rank that owns a part adds it up in rank order. Broadcasts pass along a chain in segments. Each part
/// carries the fingerprint of its call (kind, element type, shape if it is the same on all ranks; group and number
/// within it), so calls that do not match are an error that names both.
///
/// Tensors in a GPU's memory travel through memory of the host; a message from one arrives on the receiving worker's
/// GPU.
class ProcessCommunicator final : public GroupMember {
 public:
  /// `id` is the same on every member, and differs from that of every other group that shares a member with it.
  ProcessCommunicator(std::shared_ptr<ProcessWorld> world, std::vector<int> world_ranks, int rank, int64_t id,
                      std::shared_ptr<Tally> parent);

  int size() const override { return static_cast<int>(world_ranks_.size()); }
  void all_reduce(at::Tensor& tensor, ReduceOp op) override { all_reduce_into(tensor, tensor, op); }
  void all_reduce_into(const at::Tensor& input, at::Tensor& output, ReduceOp op) override;
  void all_gather(const at::Tensor& input, std::span<at::Tensor> outputs) override;
  void reduce_scatter(std::span<const at::Tensor> inputs, at::Tensor& output) override;
  void all_to_all(std::span<const at::Tensor> inputs, std::span<at::Tensor> outputs) override;
  void broadcast(at::Tensor& tensor, int root) override;
  void send(const at::Tensor& tensor, int to, int64_t tag) override;
  at::Tensor receive(int from, int64_t tag) override;
  void barrier() override;
  std::unique_ptr<Communicator> group(std::span<const int> ranks) override;
  void abort(const std::string& reason) override { world_->abort(reason); }
  std::string abort_reason() const override { return world_->abort_reason(); }
  void work_beside() override;
  void require_all_there(const std::string& doing) override { world_->require_there(world_ranks_, doing); }
  bool moves_beside_computing() const override { return size() > 1; }
  FlightRecorder* recorder() override { return &world_->recorder(); }
  MessageBuffers buffers() const { return world_->buffers(); }

 private:
  /// A collective in progress.
  struct Call {
    std::string name;       ///< "all_reduce(sum)"
    std::string text;       ///< name and what must be the same on all ranks: "all_reduce(sum) of Float [4]"
    int64_t number = 0;     ///< in this group, from 1
    std::string whole;      ///< text with its group and number: "all_reduce(sum) of Float [4], call 7 of ranks 0,1"
    uint64_t recorded = 0;  ///< number of the operation in the flight recorder
    double waited = 0;
    struct Pending {
      std::unique_ptr<Transfer> transfer;
      int peer = 0;                 ///< world rank
      at::Tensor target, received;  ///< a part is received into `received`, which may be the target's own memory
    };
    std::vector<Pending> sends;  ///< must finish before the caller may write to its tensors
    std::vector<Pending> parts;  ///< being received
  };

  Call begin(std::string name, const at::Tensor& alike = {});
  void give(Call& call, int to, const at::Tensor& part);
  /// Waits until `from` has begun to send, checks that the call is the same, and starts to receive into `target`.
  void want(Call& call, int from, const at::Tensor& target);
  void receive_parts(Call& call);
  void end(Call& call, int64_t bytes, int64_t steps);

  void reduce_parts(Call& call, ReduceOp op, const at::Tensor& own, const at::Tensor& output);
  void check_call(const Call& call, int from, const FrameHeader& header, const at::Tensor& target);
  std::string described(const std::string& call, int64_t number) const;

  const std::shared_ptr<ProcessWorld> world_;
  const std::vector<int> world_ranks_;  // ascending
  const std::string members_;           // the same ranks as text
  const int64_t id_;
  int64_t calls_ = 0;  // collectives begun
};

/// Throws a user error if options.rank is not a rank of the world. `backend` is for the message.
void check_rank(const WorldOptions& options, const char* backend);

/// Returns the communicator of all ranks of a world.
std::unique_ptr<Communicator> communicator_of(std::shared_ptr<ProcessWorld> world);

}  // namespace trireme
