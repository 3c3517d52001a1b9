// The whole weights of a run, assembled from the parts of its workers.
#pragma once

#include <filesystem>
#include <string>

#include "base/mutex.h"
#include "experiment/experiment.h"
#include "model/input_form.h"
#include "runtime/worker.h"
#include "trireme/model.h"

namespace trireme {

/// If the experiment does not say whether to save weights, a run saves up to this many bytes of them. That takes about
/// 2 s of a core, and the same memory once more.
inline constexpr int64_t kLargestSavedUnasked = int64_t{1} << 30;

/// Key in a file's metadata that states how the model was made (zoo/spec_text.h).
inline constexpr const char* kModelKey = "trireme.model";

/// Key in a file's metadata that states from which TorchScript file the model was imported, as text_of(ScriptOrigin).
inline constexpr const char* kScriptKey = "trireme.script";

/// The data needed to import a user's own model again (zoo/imported.h).
struct ScriptOrigin {
  std::filesystem::path file;  ///< absolute
  std::string fingerprint;     ///< Model::fingerprint() of the imported model
  ModelSpec spec;
};

std::string text_of(const ScriptOrigin& origin);

/// Throws a user error that begins with `where` if the text is not one that text_of returned.
ScriptOrigin script_origin_from(const std::string& text, const std::string& where);

/// Shared by the workers of a run.
class TrainedWeights {
 public:
  /// References must outlive this object.
  TrainedWeights(const Program& training, const Model& model) : program_(training), model_(model) {}

  /// Every worker must call it, between two steps and with an empty pipeline (Worker::drain). Returns when the weights
  /// are complete. Parameters are the newest master weights, or their averages if the optimizer stores any; running
  /// statistics are those of the data axis' first worker: the values that an evaluation uses. If memory does not
  /// suffice, the result is empty and failure() says so.
  void gather(int rank, Worker& worker, const ParameterStore& store);
  /// The same if every worker is a process: rank 0 of `world` gets the weights; the other ranks send what rank 0 lacks
  /// and get nothing.
  void gather(Worker& worker, Communicator& world, Precision precision);

  /// Parameters and buffers by name in the model's shapes, float32 (float64 under fp64), charged to no device. Empty
  /// until all workers have gathered.
  const TensorMap& tensors() const {
    MutexLock lock(mutex_);
    return is_whole_ ? tensors_ : none_;
  }
  /// Moves the tensors out, so that the next gather makes new ones. Call it on rank 0, while no worker gathers.
  TensorMap take();
  /// Why there are no weights although all workers gathered; otherwise "".
  const std::string& failure() const {
    MutexLock lock(mutex_);
    return failure_;
  }

 private:
  void add_parameters(const ParameterStore& store);
  void add_buffers(int rank, const Worker& worker);
  void collect_parameters(BucketId id, Worker& worker, Communicator& world, Precision precision)
      TRIREME_REQUIRES(mutex_);
  void collect_buffers(Worker& worker, Communicator& world) TRIREME_REQUIRES(mutex_);

  const Program& program_;
  const Model& model_;
  const TensorMap none_;
  mutable Mutex mutex_;
  TensorMap tensors_ TRIREME_GUARDED_BY(mutex_);
  std::string failure_ TRIREME_GUARDED_BY(mutex_);
  bool is_whole_ TRIREME_GUARDED_BY(mutex_) = false;
};

/// Returns the bytes of all weights that a run under `precision` would save.
int64_t bytes_of_weights(const Model& model, Precision precision);

/// Returns the weights in the form for files: PyTorch's names and shapes, with metadata that describe the model if it
/// is in the zoo, and how raw values become its data (`inputs`; may be null).
Weights weights_for_file(const std::optional<ModelSpec>& spec, const Model& model, const TensorMap& weights,
                         const InputForm* inputs = nullptr);

}  // namespace trireme
