#include "update/gossip.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "trireme/error.h"
#include "update/cadence.h"
#include "update/padding.h"
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

/// Number of distances in an exponential graph: 1, 2, 4, ..., at most half of the ring.
int hops_of(int replicas) { return int(std::bit_width(unsigned(replicas) / 2)); }

/// What a replica and one neighbour know of each other: public copies of their weights, by bucket, equal at both ends.
struct Edge {
  std::vector<at::Tensor> own, neighbours;
};

class GossipReplica final : public ReplicaPolicy {
 public:
  GossipReplica(const GossipOptions& options, Hub& hub)
      : ReplicaPolicy(hub), options_(options), cadence_(options.every) {}

  /// All replicas have the same weights, so both ends of an edge know both copies without an exchange.
  void begin(ReplicaState& state) override {
    if (!options_.compression) return;
    padding_ = padding_by_bucket(state);
    for (const int neighbour : gossip_neighbours(options_, hub_.replica(), hub_.replicas()))
      edges_[neighbour] = {values_of(state).weights, values_of(state).weights};
  }

  bool after_step(const StepFacts& facts, ReplicaState& state) override {
    if (!cadence_.due_after(facts)) return false;
    const int own = hub_.replica(), partner = gossip_partner(options_, own, hub_.replicas(), exchanges_++);
    if (partner != own) {
      const std::array pair = {std::min(own, partner), std::max(own, partner)};
      if (options_.compression) exchange_codes(state.weights, partner, pair);
      else hub_.average(state.weights, pair);
      exchange_the_rest(state, pair);
    }
    // Also without a partner: in a step with an exchange all replicas agree on whether the run ends, so all must say
    // that it was one.
    return true;
  }

  void finish(ReplicaState& state) override {
    hub_.average(state.weights);
    for (auto& [neighbour, edge] : edges_)
      for (std::vector<at::Tensor>* copies : {&edge.own, &edge.neighbours})
        for (size_t b = 0; b < copies->size(); ++b) (*copies)[b].copy_(state.weights[b]);
    exchange_the_rest(state, {});
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
    for (auto& [neighbour, edge] : edges_) {
      fields.weights(fmt::format("own copy for neighbour {}", neighbour), edge.own);
      fields.weights(fmt::format("copy of neighbour {}", neighbour), edge.neighbours);
    }
  }

 private:
  /// The partner makes the opposite step, so the mean of all replicas' weights does not change.
  void exchange_codes(std::span<at::Tensor> weights, int partner, std::span<const int> pair) {
    Edge& edge = edges_.at(partner);
    const size_t of_partner = partner == pair.front() ? 0 : 1;
    const Codec& codec = *options_.compression;
    for (size_t b = 0; b < weights.size(); ++b) {
      const at::Tensor code = encode(codec, weights[b] - edge.own[b], padding_[b]);
      const std::vector<at::Tensor> codes = hub_.gather(code, pair);
      check_internal(codes.size() == 2 && add_decoded(codec, code, edge.own[b], 1, padding_[b]) &&
                         add_decoded(codec, codes[of_partner], edge.neighbours[b], 1, padding_[b]),
                     "neighbours encode weights of one size");
      weights[b].add_(edge.neighbours[b] - edge.own[b], options_.gamma / 2);
    }
  }

  /// `members`: empty: all.
  void exchange_the_rest(ReplicaState& state, std::span<const int> members) {
    if (options_.average_statistics) average_statistics(state.statistics, std::nullopt, members, hub_);
    if (options_.moments == Moments::averaged)
      for (std::vector<at::Tensor>& moments : state.moments) hub_.average(moments, members);
    if (options_.moments == Moments::reset) reset_moments(state);
  }

  const GossipOptions options_;
  Cadence cadence_;
  int64_t exchanges_ = 0;         ///< so far; equal on all replicas
  std::vector<Padding> padding_;  ///< by bucket; empty without compression
  std::map<int, Edge> edges_;     ///< by neighbour; empty without compression
};

class Gossip final : public UpdatePolicy {
 public:
  explicit Gossip(const GossipOptions& options) : options_(options) {}
  std::string description() const override {
    return fmt::format("gossip,graph={},every={},moments={},average_statistics={},seed={}{}", text_of(options_.graph),
                       trireme::text_of(options_.every), trireme::text_of(options_.moments),
                       options_.average_statistics, options_.seed, text_of_compression());
  }
  bool evaluates_together() const override { return true; }
  std::unique_ptr<ReplicaPolicy> for_replica(Hub& hub) override {
    return std::make_unique<GossipReplica>(options_, hub);
  }

 private:
  std::string text_of_compression() const {
    if (!options_.compression) return "";
    return fmt::format("{},gamma={}", trireme::text_of(options_.compression), options_.gamma);
  }

  const GossipOptions options_;
};

/// Reads "compression" and "gamma", after all other options.
void read_choco(const ConfigTable& update, GossipOptions& options) {
  options.compression = read_compression(update);
  if (!options.compression) {
    if (update.has("gamma"))
      update.fail("gamma", "it is the step towards a neighbour's weights that are known by their codes only",
                  "give compression too, or leave gamma out: then neighbours take the mean");
    return;
  }
  if (options.graph == Graph::random)
    update.fail("compression",
                "neighbours keep copies of each other's weights, and on a random graph all replicas are neighbours, "
                "which meet too seldom for copies to be near the weights",
                "choose graph = \"exponential\" or \"ring\", or leave compression out");
  if (options.moments == Moments::averaged)
    update.fail("compression", "only weights are compressed", "leave out moments = \"averaged\", or compression");
  options.gamma = update.get_double("gamma", usual_gamma(*options.compression));
  if (!(options.gamma > 0 && options.gamma <= 1))
    update.fail("gamma", "the step towards a neighbour's weights is above 0 and at most 1",
                fmt::format("leave it out for {:.2g}, or give a smaller number", usual_gamma(*options.compression)));
}

std::unique_ptr<UpdatePolicy> read_gossip(const ConfigTable& update, const RunFacts& facts) {
  GossipOptions options;
  options.seed = facts.seed;
  const std::string graph = update.get_choice("graph", text_of(options.graph), {"exponential", "ring", "random"});
  for (const Graph known : {Graph::ring, Graph::exponential, Graph::random})
    if (graph == text_of(known)) options.graph = known;
  options.every = read_whole_length(update, "every", options.every, 1);
  options.moments = read_moments(update, options.moments, true);
  options.average_statistics = update.get_bool("average_statistics", options.average_statistics);
  read_choco(update, options);
  return gossip(options);
}

}  // namespace

int gossip_partner(const GossipOptions& options, int replica, int replicas, int64_t exchange) {
  if (replicas < 2) return replica;
  if (options.graph == Graph::ring) return partner_at(1, replica, replicas, exchange);
  if (options.graph == Graph::exponential) {
    const int64_t hops = hops_of(replicas);
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

std::vector<int> gossip_neighbours(const GossipOptions& options, int replica, int replicas) {
  check_internal(options.graph != Graph::random, "the neighbours of a random graph are not known before");
  std::set<int> found;
  const bool exponential = options.graph == Graph::exponential;
  for (int h = 0; h < (exponential ? hops_of(replicas) : 1); ++h) {
    const int hop = 1 << h;
    if (exponential && std::has_single_bit(unsigned(replicas))) found.insert(partner_at(hop, replica, replicas, 0));
    else found.insert({(replica + hop) % replicas, (replica - hop + replicas) % replicas});
  }
  found.erase(replica);
  return {found.begin(), found.end()};
}

double usual_gamma(const Codec& codec) {
  switch (codec.kind) {
    case Codec::Kind::topk: return std::pow(codec.share, 0.7);
    case Codec::Kind::sign: return 0.4;
    case Codec::Kind::e3m0: return 0.8;
    case Codec::Kind::bf16: break;
  }
  return 1;
}

std::unique_ptr<UpdatePolicy> gossip(const GossipOptions& options) { return std::make_unique<Gossip>(options); }

constinit const PolicyKind kGossip = {
    .name = "gossip",
    .description = "each replica averages its weights with one neighbour at a time (Lian et al., 2017)",
    .read = read_gossip,
};

}  // namespace trireme
