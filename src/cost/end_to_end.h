// End-to-end training time: seconds per step x steps per epoch x epochs to the target, and what a model-parallel worker
// changes of it (Pal et al., "Optimizing Multi-GPU Parallelization Strategies for Deep Learning Training", IEEE Micro
// 39(5), 2019).
//
// Words: N data-parallel workers with a fixed batch each; SE_N = T_1/T_N, their scaling efficiency; E_N, epochs to the
// target with their global batch; M, devices of one model-parallel worker; SU^M, by how much its step is shorter than
// that of one device. A hybrid of N workers of M devices has the global batch of N devices: its epochs are E_N, not
// E_MN. So data parallelism is quicker than one device by SU_N = SE_N N E_1/E_N, and the hybrid by SU_N^M = SU^M SU_N.
#pragma once

namespace trireme {

struct TrainingTime {
  double step_seconds = 0;     ///< T
  double steps_per_epoch = 0;  ///< S: samples of an epoch over the global batch
  double epochs = 0;           ///< E
  double seconds() const { return step_seconds * steps_per_epoch * epochs; }
};

/// N workers of M devices each, set beside M N workers of one device.
struct HybridChoice {
  int model_degree = 2;         ///< M
  double efficiency_ratio = 1;  ///< SE_MN / SE_N; 1 is in favour of data parallelism
  double epochs_ratio = 1;      ///< E_N / E_MN

  /// M (SE_MN/SE_N) (E_N/E_MN): the hybrid is quicker where SU^M is above it, and by SU^M over it.
  double threshold() const { return model_degree * efficiency_ratio * epochs_ratio; }
};

}  // namespace trireme
