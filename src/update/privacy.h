// Differential privacy of federated clients, and an accountant of what a run spends of it.
//
// In each round every client is selected independently (Poisson sampling). The norm of its update is at most
// `clip_norm`. Normal noise is added to the sum of the updates, which is divided by the expected number of clients:
// McMahan, Ramage, Talwar, Zhang, "Learning differentially private recurrent language models", 2018, with equal weights
// and their fixed-denominator estimator. Protected is the fact that a client took part: with one client more or fewer,
// the probability of any set of results changes at most by the factor e^epsilon, plus delta.
//
// Accountant: Renyi differential privacy of the sampled Gaussian mechanism at whole orders (Mironov, Talwar, Zhang,
// "Renyi differential privacy of the sampled Gaussian mechanism", 2019, section 3.3). Rounds add up. Conversion to
// epsilon and delta: Balle et al., "Hypothesis testing interpretations and Renyi differential privacy", 2020.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>

namespace trireme {

struct PrivacyOptions {
  double noise = 0;  ///< standard deviation of the noise of the sum, in units of clip_norm; 0: no privacy
  double delta = 0;
  /// Key of the noise and of the selection. A party that knows it can subtract the noise. Not set: a random number of
  /// the system.
  std::optional<uint64_t> seed = {};

  bool is_wanted() const { return noise > 0; }
};

struct PrivacySpent {
  double epsilon = 0, delta = 0;
};

/// Returns the Renyi divergence of a round, at an order of 2 or more. `fraction`: the probability with which a client
/// is selected, 0 to 1. `noise`: PrivacyOptions::noise, above 0.
double renyi_divergence(double fraction, double noise, int order);

/// Returns the least epsilon at this delta that the accountant can prove after so many rounds.
PrivacySpent privacy_spent(double fraction, const PrivacyOptions& options, int64_t rounds);

/// Returns the seed of the options, or a random number of the system.
uint64_t secret_of(const PrivacyOptions& options);

/// Adds normal noise of this standard deviation to every element of the parts, which are double. A function of the
/// secret, the round and the place of the element.
void add_noise(std::span<at::Tensor> parts, double deviation, uint64_t secret, int64_t round);

}  // namespace trireme
