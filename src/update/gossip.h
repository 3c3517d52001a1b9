// Gossip: replicas train independently, and at intervals each averages its weights with one neighbour. There is no
// server and no exchange of all; the mean of all replicas is taken at the end, and for evaluations.
//
// Decentralized SGD: Lian et al., "Can decentralized algorithms outperform centralized algorithms?", 2017. Averages of
// pairs: Boyd, Ghosh, Prabhakar, Shah, "Randomized gossip algorithms", 2006. A graph's edges taken in matchings, one
// after the other: Wang, Sahu, Yang, Joshi, Kar, "MATCHA", 2019. One neighbour of an exponential graph at a time: Ying
// et al., "Exponential graph is provably efficient for decentralized deep training", 2021: with a power of two of
// replicas, log2(n) exchanges without steps between them give the mean of all.
//
// With a code it is CHOCO-SGD: Koloskova, Stich, Jaggi, "Decentralized stochastic optimization and gossip algorithms
// with compressed communication", 2019; Koloskova, Lin, Stich, Jaggi, "Decentralized deep learning with arbitrary
// communication compression", 2020. Two neighbours keep public copies of each other's weights. In an exchange each
// sends the code of the difference between its weights and its own copy, both add what arrives to the copies, and each
// moves its weights by a step towards the neighbour's copy. In the papers a replica has one copy for all neighbours,
// which hear every exchange. Here an exchange reaches one neighbour, so each edge of the graph has a pair of copies of
// its own: they change only in the exchanges of this edge, and so stay equal at both ends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "trireme/config.h"
#include "trireme/policy.h"
#include "update/codec.h"
#include "update/local_sgd.h"

namespace trireme {

struct GossipOptions {
  /// ring: the replicas next to it. exponential: those 1, 2, 4, ... away on a ring. random: any, drawn from the seed.
  enum class Graph { ring, exponential, random } graph = Graph::exponential;
  Length every = {1, Length::Unit::steps};  ///< as LocalSgdOptions::every
  Moments moments = Moments::kept;
  bool average_statistics = true;  ///< exchange the batch norms' running statistics with the weights
  uint64_t seed = 0;
  /// of the weights; requires a ring or an exponential graph, and no averages of moments
  std::optional<Codec> compression = {};
  /// with compression: the consensus step size, above 0 and at most 1; 1: the mean of both copies
  double gamma = 1;
};

/// Returns the neighbour with which a replica averages in an exchange (counted from 0), and which averages with it; the
/// replica itself if it has none in this exchange.
int gossip_partner(const GossipOptions& options, int replica, int replicas, int64_t exchange);

/// Returns the replicas that ever are a replica's partner, ascending. Not for random graphs.
std::vector<int> gossip_neighbours(const GossipOptions& options, int replica, int replicas);

/// Returns the consensus step size that is used with a code unless another one is given. docs/updates.md names its
/// source.
double usual_gamma(const Codec& codec);

std::unique_ptr<UpdatePolicy> gossip(const GossipOptions& options);

}  // namespace trireme
