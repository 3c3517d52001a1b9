#include "trireme/model.h"

namespace trireme {

const char* name_of(LearningTask task) {
  switch (task) {
    case LearningTask::classification: return "classification";
    case LearningTask::segmentation: return "segmentation";
    case LearningTask::language: return "language";
    case LearningTask::translation: return "translation";
    case LearningTask::regression: return "regression";
  }
  return "?";
}

}  // namespace trireme
