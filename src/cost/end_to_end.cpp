#include "cost/end_to_end.h"

namespace trireme {

double speedup(const TrainingTime& one, const TrainingTime& many) { return one.seconds() / many.seconds(); }

double data_parallel_speedup(double scaling_efficiency, int workers, double epochs_of_one, double epochs_of_all) {
  return scaling_efficiency * workers * epochs_of_one / epochs_of_all;
}

double hybrid_speedup(double step_speedup, double scaling_efficiency, int workers, double epochs_of_one, double epochs_of_all) {
  return step_speedup * data_parallel_speedup(scaling_efficiency, workers, epochs_of_one, epochs_of_all);
}

bool hybrid_wins(double step_speedup, const HybridChoice& choice) { return step_speedup > choice.threshold(); }

double hybrid_gain(double step_speedup, const HybridChoice& choice) { return step_speedup / choice.threshold(); }

double epochs_growth_for(double gain, double step_speedup, int model_degree, double efficiency_ratio) {
  return gain * model_degree * efficiency_ratio / step_speedup;
}

}  // namespace trireme
