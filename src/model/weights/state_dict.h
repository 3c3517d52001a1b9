// PyTorch's `.pt` files: what torch.save writes (a zip archive with a pickle and the tensors' bytes, since PyTorch 1.6)
// and TorchScript archives. The zip archive is read by libtorch, the pickle by model/weights/pickle.h: no code of the
// file ever runs.
#pragma once

#include <filesystem>

#include "trireme/tensor_map.h"

namespace trireme {

/// The tensors of
/// - a state dict: a dict or OrderedDict of tensors (parameters too), at the top of the file or there under
/// "state_dict",
///   "model_state_dict" or "model", the first of these that is a dict with tensors. Of a checkpoint only these are
///   read;
/// - a TorchScript archive: parameters and buffers by the names that named_parameters() and named_buffers() give them
/// (those of
///   archives from before PyTorch 1.6, which do not list them: all tensors that are attributes of modules).
///
/// Tensors keep their strides and share memory where they did when saved. Wherever they were (GPU), they come to the
/// CPU. User errors: a file in the format of before PyTorch 1.6, a pickled module or other object, TorchScript without
/// tensors, sparse, quantized or complex tensors (these say how to convert the file); a damaged archive or pickle, a
/// tensor that reaches beyond its storage. Checksums are not looked at, as in torch.load.
Weights read_state_dict(const std::filesystem::path& path);

}  // namespace trireme
