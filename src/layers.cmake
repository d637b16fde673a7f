# The layer table: a layer may link (and include) itself and the layers named in its row, nothing else.
# CMake refuses any other link (cmake/DfkvLayer.cmake); tests/tidy/check_layers.py reads this file and
# refuses any other include.
#   DFKV_LAYER_<name>           layers it may use
#   DFKV_LAYER_<name>_EXTERNAL  third-party packages confined to it ("header or library name"); see docs/DEPENDENCIES.md
set(DFKV_LAYERS base wire io store net cluster client capi admin node tools cmd)

set(DFKV_LAYER_base "")
set(DFKV_LAYER_wire base)
set(DFKV_LAYER_io base)
set(DFKV_LAYER_store io base)
set(DFKV_LAYER_net wire io base)
set(DFKV_LAYER_cluster net wire io base)
set(DFKV_LAYER_client cluster net wire io base)
set(DFKV_LAYER_capi client base)
set(DFKV_LAYER_admin io base)
set(DFKV_LAYER_node store net cluster admin wire io base)
set(DFKV_LAYER_tools client store cluster net io wire base)
set(DFKV_LAYER_cmd tools node capi client store cluster admin net io wire base)

set(DFKV_LAYER_base_EXTERNAL openssl spdlog fmt CLI toml++)
set(DFKV_LAYER_wire_EXTERNAL "")
set(DFKV_LAYER_io_EXTERNAL liburing)
set(DFKV_LAYER_store_EXTERNAL xxhash absl zlib)
set(DFKV_LAYER_net_EXTERNAL "")
set(DFKV_LAYER_cluster_EXTERNAL "")
set(DFKV_LAYER_client_EXTERNAL "")
set(DFKV_LAYER_capi_EXTERNAL "")
set(DFKV_LAYER_admin_EXTERNAL "")
set(DFKV_LAYER_node_EXTERNAL nlohmann)
set(DFKV_LAYER_tools_EXTERNAL nlohmann zlib)
set(DFKV_LAYER_cmd_EXTERNAL "")
