/* The encapsulation as the description has it, for comparison: reads lines of
 *   slid dlid frame_bytes pkey entropy sc rc vesw becn fecn
 * (hexadecimal, but for the decimal frame_bytes) and writes the header, and the trailer behind the
 * frame, in hexadecimal. Written from the description alone; it shares nothing with the Go code. */
#include <stdint.h>
#include <stdio.h>

static void dword(uint32_t v)
{
	for (int i = 0; i < 4; i++, v >>= 8)
		printf("%02x", v & 0xff);
}

int main(void)
{
	unsigned slid, dlid, frame, pkey, entropy, sc, rc, vesw, becn, fecn;

	while (scanf("%x %x %u %x %x %x %x %x %x %x", &slid, &dlid, &frame, &pkey, &entropy, &sc, &rc,
		     &vesw, &becn, &fecn) == 10) {
		unsigned pad = 0;
		uint32_t h0 = 0, h1 = 0, h2 = 0, h3 = 0, h4 = 0;

		while ((20 + frame + pad + 4 + 1) % 8)
			pad++;
		h0 |= slid & 0xfffff;
		h0 |= ((20 + frame + pad + 5) / 8) << 20;
		h0 |= becn << 31;
		h1 |= dlid & 0xfffff;
		h1 |= fecn << 28;
		h1 |= sc << 20;
		h1 |= rc << 25;
		h1 |= 2u << 29;
		h1 |= 1u << 31;
		h2 |= 0x78;
		h2 |= (slid >> 20) << 8;
		h2 |= (dlid >> 20) << 12;
		h2 |= pkey << 16;
		h3 |= entropy;
		h4 |= vesw << 16;
		dword(h0);
		dword(h1);
		dword(h2);
		dword(h3);
		dword(h4);
		printf(" ");
		for (unsigned i = 0; i < pad + 4; i++)
			printf("00");
		/* Bits 56-61 of the last quad word are the number of pad bytes, 62-63 the type of the
		 * link transfer: 1, a tail. */
		printf("%02x\n", pad | 1 << 6);
	}
	return 0;
}
