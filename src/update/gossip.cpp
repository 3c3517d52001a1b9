#include "update/gossip.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "update/cadence.h"
#include "update/codec.h"
#include "update/registry.h"
#include "update/statistics.h"

namespace trireme {
namespace {

using Graph = GossipOptions::Graph;

const char* text_of(Graph graph) {
  constexpr std::array kTexts = {"ring", "exponential", "random"};
  return kTexts.at(size_t(graph));
}

/// Returns the partner of place `place` on a ring of `length` places. The edges are taken in matchings, which
/// alternate; on a ring of odd length one place after another has no partner.
int partner_on_ring(int place, int length, int64_t turn) {
  const bool odd = length % 2 == 1;
  const int first = int(turn % (odd ? length : 2));  // left out if the length is odd
  const int from_first = (place - first - (odd ? 1 : 0) + 2 * length) % length;
  if (odd && from_first == length - 1) return place;
  return (place + (from_first % 2 == 0 ? 1 : length - 1)) % length;
}

/// The same for replicas that are `hop` apart, which form rings of their own.
int partner_at(int hop, int replica, int replicas, int64_t turn) {
  const int rings = std::gcd(hop, replicas), length = replicas / rings;
  if (length < 2) return replica;
  int place = 0;
  for (int at = replica % rings; at != replica; at = (at + hop) % replicas) ++place;
  const int partner = partner_on_ring(place, length, turn);
  return int((replica % rings + int64_t(partner) * hop) % replicas);
}

class GossipReplica final : public ReplicaPolicy {
 public:
  GossipReplica(const GossipOptions& options, Hub& hub)
      : ReplicaPolicy(hub), options_(options), cadence_(options.every) {}

  bool after_step(const StepFacts& facts, ReplicaState& state) override {
    if (!cadence_.due_after(facts)) return false;
    const int own = hub_.replica(), partner = gossip_partner(options_, own, hub_.replicas(), exchanges_++);
    if (partner != own) average(state, std::array{std::min(own, partner), std::max(own, partner)});
    // Also without a partner: in a step with an exchange all replicas agree on whether the run ends, so all must say
    // that it was one.
    return true;
  }

  void finish(ReplicaState& state) override {
    average(state, {});
    cadence_.settle();
  }

  ModelValues values_for_evaluation(ReplicaState& state) override {
    Hub::Unmetered evaluation(hub_);
    ModelValues values = values_of(state);
    hub_.average(values.weights);
    average_statistics(values.statistics, std::nullopt, {}, hub_);
    return values;
  }

 protected:
  void fields(StateFields& fields, const ReplicaState&) override {
    cadence_.fields(fields);
    fields.value("exchanges", exchanges_);
  }

 private:
  /// `members`: empty: all.
  void average(ReplicaState& state, std::span<const int> members) {
    hub_.average(state.weights, members);
    if (options_.average_statistics) average_statistics(state.statistics, std::nullopt, members, hub_);
    if (options_.moments == Moments::averaged)
      for (std::vector<at::Tensor>& moments : state.moments) hub_.average(moments, members);
    if (options_.moments == Moments::reset) reset_moments(state);
  }

  const GossipOptions options_;
  Cadence cadence_;
  int64_t exchanges_ = 0;  ///< so far; equal on all replicas
};

class Gossip final : public UpdatePolicy {
 public:
  explicit Gossip(const GossipOptions& options) : options_(options) {}
  std::string description() const override {
    return fmt::format("gossip,graph={},every={},moments={},average_statistics={},seed={}", text_of(options_.graph),
                       trireme::text_of(options_.every), trireme::text_of(options_.moments),
                       options_.average_statistics, options_.seed);
  }
  bool evaluates_together() const override { return true; }
  std::unique_ptr<ReplicaPolicy> for_replica(Hub& hub) override {
    return std::make_unique<GossipReplica>(options_, hub);
  }

 private:
  const GossipOptions options_;
};

std::unique_ptr<UpdatePolicy> read_gossip(const ConfigTable& update, const RunFacts& facts) {
  GossipOptions options;
  options.seed = facts.seed;
  const std::string graph = update.get_choice("graph", text_of(options.graph), {"exponential", "ring", "random"});
  for (const Graph known : {Graph::ring, Graph::exponential, Graph::random})
    if (graph == text_of(known)) options.graph = known;
  options.every = read_whole_length(update, "every", options.every, 1);
  options.moments = read_moments(update, options.moments, true);
  options.average_statistics = update.get_bool("average_statistics", options.average_statistics);
  refuse_compression(update, "each pair of neighbours would need copies of the other's weights",
                     "leave it out, or choose local-sgd");
  return gossip(options);
}

}  // namespace

int gossip_partner(const GossipOptions& options, int replica, int replicas, int64_t exchange) {
  if (replicas < 2) return replica;
  if (options.graph == Graph::ring) return partner_at(1, replica, replicas, exchange);
  if (options.graph == Graph::exponential) {
    const auto hops = int64_t(std::bit_width(unsigned(replicas) / 2));  // 1, 2, ..., at most half of the ring
    // Of a power of two the first matching of each hop is enough.
    const int64_t turn = std::has_single_bit(unsigned(replicas)) ? 0 : exchange / hops;
    return partner_at(1 << (exchange % hops), replica, replicas, turn);
  }
  const uint64_t key = random_key(options.seed, "neighbours of exchange " + std::to_string(exchange));
  const std::vector<int64_t> order = random_permutation(replicas, key);
  const auto place = size_t(std::find(order.begin(), order.end(), replica) - order.begin());
  const size_t partner = place ^ 1;  // neighbours in the order: 0 and 1, 2 and 3, ...
  return partner < order.size() ? int(order[partner]) : replica;
}

std::unique_ptr<UpdatePolicy> gossip(const GossipOptions& options) { return std::make_unique<Gossip>(options); }

constinit const PolicyKind kGossip = {
    .name = "gossip",
    .description = "each replica averages its weights with one neighbour at a time (Lian et al., 2017)",
    .read = read_gossip,
};

}  // namespace trireme
