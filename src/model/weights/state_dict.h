// Reads PyTorch's `.pt` files: those of torch.save (a zip archive with a pickle and the tensors' bytes, since PyTorch
// 1.6) and TorchScript archives. libtorch reads the zip archive, model/weights/pickle.h the pickle: no code in the file
// is ever run.
#pragma once

#include <filesystem>

#include "model/weights/weights.h"

namespace trireme {

/// Returns the tensors of
/// - a state dict: a dict or OrderedDict of tensors (also parameters), at the top of the file or there under
///   "state_dict", "model_state_dict" or "model", the first of these that is a dict with tensors. Nothing else of a
///   checkpoint is read;
/// - a TorchScript archive: parameters and buffers by the names that named_parameters() and named_buffers() return.
///   Archives from before PyTorch 1.6 do not list them: all tensors that are attributes of modules.
///
/// Tensors keep their strides, and share memory if they did when they were saved. All are on the CPU, wherever they
/// were saved (GPU). Throws user errors: a file in the format of before PyTorch 1.6; a pickled module or other object;
/// TorchScript without tensors; sparse, quantized or complex tensors (these messages state how to convert the file); a
/// damaged archive or pickle, or a record with a wrong checksum; a tensor that extends beyond its storage.
Weights read_state_dict(const std::filesystem::path& path);

}  // namespace trireme
