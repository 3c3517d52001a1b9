// End-to-end training time: seconds per step x steps per epoch x epochs to the target, and what a model-parallel worker changes of it
// (Pal et al., "Optimizing Multi-GPU Parallelization Strategies for Deep Learning Training", IEEE Micro 39(5), 2019).
//
// Words: N data-parallel workers with a fixed batch each; SE_N = T_1/T_N, their scaling efficiency; E_N, epochs to the target with
// their global batch; M, devices of one model-parallel worker; SU^M, by how much its step is shorter than that of one device. A hybrid of
// N workers of M devices has the global batch of N devices: its epochs are E_N, not E_MN.
#pragma once

namespace trireme {

struct TrainingTime {
  double step_seconds = 0;     ///< T
  double steps_per_epoch = 0;  ///< S: samples of an epoch over the global batch
  double epochs = 0;           ///< E
  double seconds() const { return step_seconds * steps_per_epoch * epochs; }
};

/// By how much `many` is quicker than `one`.
double speedup(const TrainingTime& one, const TrainingTime& many);

/// SU_N = SE_N N E_1/E_N.
double data_parallel_speedup(double scaling_efficiency, int workers, double epochs_of_one, double epochs_of_all);

/// SU_N^M = SU^M SE_N N E_1/E_N.
double hybrid_speedup(double step_speedup, double scaling_efficiency, int workers, double epochs_of_one, double epochs_of_all);

/// N workers of M devices each, set beside M N workers of one device.
struct HybridChoice {
  int model_degree = 2;         ///< M
  double efficiency_ratio = 1;  ///< SE_MN / SE_N; 1 is in favour of data parallelism
  double epochs_ratio = 1;      ///< E_N / E_MN

  /// The hybrid is quicker where SU^M is above M (SE_MN/SE_N) (E_N/E_MN).
  double threshold() const { return model_degree * efficiency_ratio * epochs_ratio; }
};

bool hybrid_wins(double step_speedup, const HybridChoice& choice);
/// Time of data parallelism over time of the hybrid: SU^M over the threshold.
double hybrid_gain(double step_speedup, const HybridChoice& choice);
/// E_MN / E_N at which the hybrid's gain is `gain`.
double epochs_growth_for(double gain, double step_speedup, int model_degree, double efficiency_ratio = 1);

}  // namespace trireme
