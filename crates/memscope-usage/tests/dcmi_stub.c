/* A management library with known numbers. Cards are listed backwards, and the second device of each card is its
 * management processor, which has no number. STUB_CARDS, STUB_INIT_CODE, STUB_NO_HBM, STUB_NO_PROCESSES and
 * STUB_WITHOUT_INIT choose a variant. */
#ifndef STUB_CARDS
#define STUB_CARDS 2
#endif
#ifndef STUB_INIT_CODE
#define STUB_INIT_CODE 0
#endif

struct hbm_info {
    unsigned long long memory_size;
    unsigned int freq;
    unsigned long long memory_usage;
    int temp;
    unsigned int bandwidth_util_rate;
};
struct proc_mem_info {
    int proc_id;
    unsigned long proc_mem_usage;
};

static int ready;

#ifndef STUB_WITHOUT_INIT
int dcmi_init(void) {
    ready = STUB_INIT_CODE == 0;
    return STUB_INIT_CODE;
}
#endif

int dcmi_get_card_list(int *count, int *list, int room) {
    if (!ready) return -1;
    for (int i = 0; i < STUB_CARDS && i < room; i++) list[i] = STUB_CARDS - 1 - i;
    *count = STUB_CARDS;
    return 0;
}
int dcmi_get_device_num_in_card(int card, int *count) {
    *count = 2;
    return card < 0 || card >= STUB_CARDS ? -8255 : 0;
}
int dcmi_get_device_logic_id(int *logic, int card, int device) {
    if (device == 1) return -8255;
    *logic = card;
    return 0;
}
int dcmi_get_device_hbm_info(int card, int device, struct hbm_info *info) {
#ifdef STUB_NO_HBM
    return -8255;
#else
    if (device != 0) return -8255;
    info->memory_size = 65536;
    info->freq = 0xdeadbeef;
    info->memory_usage = 100 + card;
    info->temp = -1;
    info->bandwidth_util_rate = 0xdeadbeef;
    return 0;
#endif
}
int dcmi_get_npu_proc_mem_info(int card, int device, struct proc_mem_info *list, int *count) {
#ifdef STUB_NO_PROCESSES
    return -8255;
#else
    if (device != 0) return -8255;
    list[0].proc_id = 4321;
    list[0].proc_mem_usage = 7000000000UL + card;
    list[1].proc_id = 1234;
    list[1].proc_mem_usage = 5;
    *count = 2;
    return 0;
#endif
}
