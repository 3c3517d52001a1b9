#include "update/privacy.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/random.h"

namespace trireme {
namespace {

constexpr int kGreatestOrder = 1024;

/// By n: the logarithm of n!.
std::vector<double> log_factorials(int greatest) {
  std::vector<double> logs(size_t(greatest) + 1, 0.0);
  for (size_t n = 2; n < logs.size(); ++n) logs[n] = logs[n - 1] + std::log(double(n));
  return logs;
}

double log_of_sum(const std::vector<double>& logs) {
  const double greatest = *std::max_element(logs.begin(), logs.end());
  double sum = 0;
  for (const double log : logs) sum += std::exp(log - greatest);
  return greatest + std::log(sum);
}

}  // namespace

double renyi_divergence(double fraction, double noise, int order) {
  if (fraction == 0) return 0;
  const double variance = noise * noise;
  if (fraction == 1) return order / (2 * variance);
  static const std::vector<double> log_factorial = log_factorials(kGreatestOrder);
  std::vector<double> terms;
  terms.reserve(size_t(order) + 1);
  for (int k = 0; k <= order; ++k) {
    const double choices = log_factorial[size_t(order)] - log_factorial[size_t(k)] - log_factorial[size_t(order - k)];
    terms.push_back(choices + k * std::log(fraction) + (order - k) * std::log1p(-fraction) +
                    double(k) * (k - 1) / (2 * variance));
  }
  return std::max(0.0, log_of_sum(terms) / (order - 1));
}

PrivacySpent privacy_spent(double fraction, const PrivacyOptions& options, int64_t rounds) {
  if (rounds == 0) return {0, options.delta};
  double least = std::numeric_limits<double>::infinity();
  for (int order = 2; order <= kGreatestOrder; ++order) {
    const double spent = double(rounds) * renyi_divergence(fraction, options.noise, order);
    const double epsilon =
        spent + std::log1p(-1.0 / order) - (std::log(options.delta) + std::log(double(order))) / (order - 1);
    least = std::min(least, epsilon);
  }
  return {std::max(0.0, least), options.delta};
}

uint64_t secret_of(const PrivacyOptions& options) {
  if (options.seed) return random_key(*options.seed, "privacy");
  std::random_device system;
  return (uint64_t{system()} << 32) | system();
}

void add_noise(std::span<at::Tensor> parts, double deviation, uint64_t secret, int64_t round) {
  const Philox draw(random_key(secret, "noise"));
  uint64_t element = 0;
  for (at::Tensor& part : parts) {
    const at::Tensor noise = at::empty(part.sizes(), at::kDouble);
    double* const values = noise.data_ptr<double>();
    for (int64_t i = 0; i < noise.numel(); ++i) values[i] = deviation * draw.normal(element++, uint64_t(round));
    part.add_(noise.to(part.device()));
  }
}

}  // namespace trireme
