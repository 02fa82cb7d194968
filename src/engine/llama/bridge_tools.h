/* Tools where a chat template has no place for them; for the bridge alone. */
#ifndef VR_ENGINE_LLAMA_BRIDGE_TOOLS_H
#define VR_ENGINE_LLAMA_BRIDGE_TOOLS_H

#include <chat.h>

/* A conversation in which calls and results are text. */
std::vector<common_chat_msg> vr_tools_messages(const std::vector<common_chat_msg> &messages);
/* As common_chat_templates_apply(), of such a conversation and inputs that have tools: `tools` are the same, as JSON.
 * Throws as it does. */
common_chat_params vr_tools_apply(const common_chat_templates *templates, const common_chat_templates_inputs &inputs,
                                  const common_json &tools);

#endif
