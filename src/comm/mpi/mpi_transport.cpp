#include "comm/mpi/mpi_transport.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "comm/mpi/mpi_engine.h"
#include "comm/mpi/mpi_keys.h"
#include "comm/rendezvous/process_place.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;

// The variables by which an MPI finds its launcher: Open MPI 4 and 5 (PMIx, also under srun --mpi=pmix), MPICH, Intel
// MPI and srun --mpi=pmi2.
constexpr const char* kLauncherVariables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};

class MpiTransfer final : public Transfer {
 public:
  explicit MpiTransfer(std::shared_ptr<MpiOperation> operation) : operation_(std::move(operation)) {
    MpiEngine::instance().start(operation_);
  }
  ~MpiTransfer() override { MpiEngine::instance().let_go(operation_); }
  bool wait(milliseconds limit) override { return MpiEngine::instance().wait(*operation_, limit); }
  void cancel() override { MpiEngine::instance().cancel(*operation_); }

 private:
  const std::shared_ptr<MpiOperation> operation_;
};

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(MPI_Comm world) : world_(world) {}

  std::unique_ptr<Transfer> send(const at::Tensor& contiguous, int to, int tag) override {
    return transfer(MpiOperation::Kind::send, contiguous, to, tag);
  }
  std::unique_ptr<Transfer> receive(const at::Tensor& contiguous, int from, int tag) override {
    return transfer(MpiOperation::Kind::receive, contiguous, from, tag);
  }

 private:
  std::unique_ptr<Transfer> transfer(MpiOperation::Kind kind, const at::Tensor& data, int peer, int tag) const {
    auto operation = std::make_shared<MpiOperation>();
    operation->kind = kind;
    operation->world = world_;
    operation->data = data;
    operation->peer = peer;
    // Tag 0 is for frames. Payload tags count upwards modulo MPI's greatest tag, so two payloads of one pair share a
    // tag only if they are thousands of messages apart.
    operation->tag = tag == 0 ? 0 : 1 + (tag - 1) % MpiEngine::instance().greatest_tag();
    return std::make_unique<MpiTransfer>(std::move(operation));
  }

  const MPI_Comm world_;  // remains until MPI ends: freeing it is a collective, which a failed rank would not join
};

/// Without a launcher, MPI would start as a world of one, or end this process.
void check_launcher() {
  const bool known = std::any_of(std::begin(kLauncherVariables), std::end(kLauncherVariables),
                                 [](const char* name) { return std::getenv(name); });
  if (!known)
    fail_user({"backend mpi", "this process was not started by MPI",
               "there is neither OMPI_COMM_WORLD_RANK nor PMIX_RANK nor PMI_RANK",
               "start the workers with mpirun, or with srun --mpi=pmix"});
}

/// Disables Open MPI's TCP if all ranks are on one machine, where it is not needed. Its listeners would be on all
/// interfaces, without a token, and a foreign process that connects and sends nothing would block the ranks' rendezvous
/// for good. A choice of transports by the user is not overwritten.
void disable_tcp_on_one_machine() {
  const Variables variables = environment();
  const auto all = variables("OMPI_COMM_WORLD_SIZE"), here = variables("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (all && here && *all == *here) ::setenv("OMPI_MCA_btl", "^tcp", /*overwrite=*/0);
}

/// Connects the ranks of the next world.
Connections connect_world(const WorldOptions& options) {
  const milliseconds patience(std::max<int64_t>(1, int64_t(options.rendezvous_seconds * 1000)));
  auto rendezvous = std::make_shared<MpiOperation>();
  rendezvous->kind = MpiOperation::Kind::create_communicator;
  MpiEngine::instance().start(rendezvous);
  try {
    MpiEngine::instance().wait(*rendezvous, patience);
    auto transport = std::make_unique<MpiTransport>(rendezvous->world);
    MpiKeys keys = share_keys(*transport, options.rank, options.size, patience);
    return {std::move(keys.keys), std::move(transport), /*keys_show_life=*/keys.are_shared, /*ends_are_seen=*/false};
  } catch (const std::exception& error) {
    fail_run({.where = fmt::format("rank {} of {}, rendezvous over MPI", options.rank, options.size),
              .what = "not all ranks arrived",
              .why = first_line(error),
              .next = "look at the end of their output"});
  }
}

}  // namespace

bool mpi_available() { return true; }

void expect_no_end_of_mpi() { MpiEngine::instance().expect_no_end(); }

Connections connect_over_mpi(const WorldOptions& options) {
  check_launcher();
  disable_tcp_on_one_machine();
  const MpiEngine& engine = MpiEngine::instance();
  if (engine.rank() != options.rank || engine.size() != options.size)
    fail_user(
        {"backend mpi", fmt::format("MPI says rank {} of {}", engine.rank(), engine.size()),
         fmt::format("the launcher's variables say rank {} of {}", options.rank, options.size),
         "start all workers with one mpirun of the MPI that trireme was built with, and unset RANK and WORLD_SIZE"});
  return connect_world(options);
}

}  // namespace trireme
