# libmtmd.a: the part of llama.cpp that reads pictures (tools/mtmd), which its prebuilt packages leave out. About 50 CPU
# seconds, once per engine.
#   make -f tools/mtmd.mk AT=build/engine/src OUT=build/engine/mtmd

SOURCES := $(addprefix $(AT)/tools/mtmd/,mtmd.cpp mtmd-audio.cpp mtmd-image.cpp mtmd-helper.cpp clip.cpp) \
           $(wildcard $(AT)/tools/mtmd/models/*.cpp)
# named after the engine's folder, so that objects of another engine are never taken for these
STAMP   := $(OUT)/$(notdir $(realpath $(AT)))
OBJECTS := $(SOURCES:$(AT)/tools/mtmd/%.cpp=$(STAMP)/%.o)
INC     := $(addprefix -I$(AT)/,include ggml/include common tools/mtmd vendor $(addprefix vendor/,stb miniaudio hash sheredom))

$(OUT)/libmtmd.a: $(OBJECTS)
	@printf '  %-5s %s\n' AR $(notdir $@)
	@rm -f $@ && ar rcs $@ $^

$(STAMP)/%.o: $(AT)/tools/mtmd/%.cpp
	@mkdir -p $(@D)
	@printf '  %-5s %s\n' C++ mtmd/$*
	@$(CXX) -std=c++17 -O1 -w -fPIC $(INC) -c -o $@ $<
