// End-to-end training time: seconds per step x steps per epoch x epochs to the target, and how a model-parallel worker
// changes it (Pal et al., "Optimizing Multi-GPU Parallelization Strategies for Deep Learning Training", IEEE Micro
// 39(5), 2019).
//
// Terms: N data-parallel workers with a fixed batch each. SE_N = T_1/T_N, their scaling efficiency. E_N, epochs to the
// target with their global batch. M, devices of one model-parallel worker. SU^M, the step time of one device over that
// of such a worker. A hybrid of N workers of M devices has the global batch of N devices, so it needs E_N epochs, not
// E_MN. Data parallelism is faster than one device by SU_N = SE_N N E_1/E_N, and the hybrid by SU_N^M = SU^M SU_N.
#pragma once

namespace trireme {

struct TrainingTime {
  double step_seconds = 0;     ///< T
  double steps_per_epoch = 0;  ///< S: samples of an epoch over the global batch
  double epochs = 0;           ///< E
  double seconds() const { return step_seconds * steps_per_epoch * epochs; }
};

/// N workers of M devices each, compared with M N workers of one device.
struct HybridChoice {
  int model_degree = 2;         ///< M
  double efficiency_ratio = 1;  ///< SE_MN / SE_N; 1 favours data parallelism
  double epochs_ratio = 1;      ///< E_N / E_MN

  /// M (SE_MN/SE_N) (E_N/E_MN). The hybrid is faster if SU^M is above this threshold, by the factor SU^M / threshold.
  double threshold() const { return model_degree * efficiency_ratio * epochs_ratio; }
};

}  // namespace trireme
