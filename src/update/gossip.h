// Gossip: replicas train independently, and at intervals each averages its weights with one neighbour. There is no
// server and no exchange of all; the mean of all replicas is taken at the end, and for evaluations.
//
// Decentralized SGD: Lian et al., "Can decentralized algorithms outperform centralized algorithms?", 2017. Averages of
// pairs: Boyd, Ghosh, Prabhakar, Shah, "Randomized gossip algorithms", 2006. A graph's edges taken in matchings, one
// after the other: Wang, Sahu, Yang, Joshi, Kar, "MATCHA", 2019. One neighbour of an exponential graph at a time: Ying
// et al., "Exponential graph is provably efficient for decentralized deep training", 2021: with a power of two of
// replicas, log2(n) exchanges without steps between them give the mean of all.
#pragma once

#include <cstdint>
#include <memory>

#include "trireme/config.h"
#include "trireme/policy.h"
#include "update/local_sgd.h"

namespace trireme {

struct GossipOptions {
  /// ring: the replicas next to it. exponential: those 1, 2, 4, ... away on a ring. random: any, drawn from the seed.
  enum class Graph { ring, exponential, random } graph = Graph::exponential;
  Length every = {1, Length::Unit::steps};  ///< as LocalSgdOptions::every
  Moments moments = Moments::kept;
  bool average_statistics = true;  ///< exchange the batch norms' running statistics with the weights
  uint64_t seed = 0;
};

/// Returns the neighbour with which a replica averages in an exchange (counted from 0), and which averages with it; the
/// replica itself if it has none in this exchange.
int gossip_partner(const GossipOptions& options, int replica, int replicas, int64_t exchange);

std::unique_ptr<UpdatePolicy> gossip(const GossipOptions& options);

}  // namespace trireme
