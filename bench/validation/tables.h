// The published tables.
#pragma once

#include <filesystem>
#include <vector>

#include "validation/table.h"

namespace trireme::validation {

/// GPipe (Huang et al., 2019): memory of weights, throughput of Transformers on TPUs and on P100.
Table gpipe_weights();
Table gpipe_tpu();
Table gpipe_p100();

/// torchgpipe (Kim et al., 2020): U-Net's and AmoebaNet's weights, U-Net's throughput, ResNet-101.
Table unet_weights();
Table amoebanet_weights();
Table unet_speed();
Table resnet101_speed();

/// Small images on two desktop GPUs: data parallel and GPipe compared with one GPU.
Table small_images();

/// Megatron-LM (Narayanan et al., SC 2021).
Table megatron_parameters();
Table megatron_speed();
Table zero3_speed();

/// vTrain (Bang et al., MICRO 2024): Megatron-DeepSpeed on many GPUs.
Table vtrain_multi_node();
Table vtrain_single_node();

/// Aleph Alpha (Hagemann et al., 2023): Llama models under many layouts; which of them fit the memory.
Table aleph_alpha_speed();
Table aleph_alpha_memory();

/// NVIDIA's DGX Cloud benchmarks: Llama 3.1 8B on H100.
Table dgx_speed();

/// OneFlow's DLPerf: GPT on V100.
Table oneflow_speed();
Table internevo_speed();

/// Korthikanti et al., 2022: selective and full recompute; memory of the first stage.
Table korthikanti_speed();
Table korthikanti_memory();

/// Horovod (Sergeev and Del Balso, 2018).
Table horovod_scaling();

/// Zero bubble (Qi et al., ICLR 2024): bubbles from profiled times, and measured throughput.
Table zero_bubble_bubbles();
Table zero_bubble_fixed();
Table zero_bubble_larger();
Table zero_bubble_same_memory();
Table zero_bubble_speed();

/// PipeDream (Narayanan et al., SOSP 2019) on its published profiles, below `profiles`.
Table pipedream_speedups(const std::filesystem::path& profiles);

}  // namespace trireme::validation
